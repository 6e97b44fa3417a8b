"""Rollback: does an aborted branch still steer the decision? The texts are ours; arXiv 2608.15939."""

from workers.studies.base import Study
from workers.studies.rollback.axes import AXES, MEASURES
from workers.studies.rollback.judge import RollbackJudge
from workers.studies.rollback.spec import RollbackSpec

__all__ = ["AXES", "MEASURES", "STUDY", "RollbackSpec"]

STUDY = Study(
    name="rollback",
    version=2,
    axes=AXES,
    measures=MEASURES,
    reference="cold",
    spec=RollbackSpec,
    judge=RollbackJudge(),
    before={"content": "ours"},
)
