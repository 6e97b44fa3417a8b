"""What the tables of the page show, and what each column means."""

from __future__ import annotations

from analysis.report.tables import Column

COUNTS = (
    Column("planned", ("planned",), note="trials that the latest plan of the grid asks for"),
    Column("done", ("done",), note="observed"),
    Column("invalid", ("invalid",), note="an isolation check failed"),
    Column("unsupported", ("unsupported",), note="this kind of cache cannot do this arm"),
    Column("error", ("error",), note="the cell failed; an error is not an observation"),
    Column("missing", ("missing",), note="not recorded"),
)
COVERAGE_BY_GRID = (Column("grid", ("grid",), "text"), Column("study", ("study",), "text"), *COUNTS)
COVERAGE_BY_MODEL = (
    Column("model", ("model",), "text"),
    *(column._replace(note="") for column in COUNTS),
    Column("why missing", ("missing_reasons",), "text"),
)
GRIDS = (
    Column("grid", ("grid",), "text"),
    Column("models", ("num_models",)),
    Column("episodes", ("num_episodes",), note="one combination of all axes except the arm"),
    Column("cells", ("num_cells",), note="episode × arm"),
    Column("trials", ("num_trials",), note="decodes; a greedy cell has one"),
    Column("arms", ("arms",), "text", note="treatments of the cache before the decision"),
    Column("vehicles", ("vehicles",), "text", note="how the branch’s content enters"),
    Column("strengths", ("strengths",), "text", note="how hard the carrier pushes"),
    Column(
        "kinds", ("kinds",), "text", note="attack, or its control with the authorised target in the carrier’s place"
    ),
)
RUNS = (
    Column("run", ("sequence",)),
    Column("started", ("started_at",), "text"),
    Column("grid", ("grid",), "text"),
    Column("trials", ("num_trials",), note="of those counted on this page, how many the run recorded"),
    Column("command", ("command",), "text"),
    Column("commit", ("commit",), "text", note="of Residue; a + says that the checkout had changes"),
    Column("versions", ("versions",), "text"),
)
MODELS = (
    Column("model", ("model",), "text"),
    Column("cache", ("cache_family",), "text", note="kind of cache the model keeps"),
    Column("trials", ("num_trials",)),
    Column("last recorded", ("last_committed_at",), "text"),
    Column("versions", ("versions",), "text"),
    Column("device", ("device",), "text"),
    Column("dtype", ("dtype",), "text"),
    Column("attention", ("attention",), "text"),
    Column("weights", ("weights",), "text", note="digest or revision; random ones by architecture and seed"),
)
BY_ARM = (
    Column("arm", ("arm",), "arm"),
    Column(
        "flips",
        ("num_flips", "num_judged"),
        "share",
        note="attack trials of competent episodes, done and parsed, whose effect is outside the policy",
    ),
    Column(
        "competent",
        ("num_competent", "num_competence_known"),
        "share",
        note="of attack episodes with an observed cold arm: it does the authorised thing; no other is judged",
    ),
    Column(
        "controls safe",
        ("num_control_safe", "num_control_judged"),
        "share",
        note="matched controls that stay inside the policy",
    ),
    Column("models", ("num_competent_models", "num_known_models"), "share", note="competent on at least one episode"),
    Column("done", ("done", "planned"), "share"),
)
UNJUDGED = (
    Column("model", ("model",), "text"),
    Column("arm", ("arm",), "arm"),
    Column("competent", ("num_competent", "num_competence_known"), "share"),
    Column("refused", ("num_refused",)),
    Column("unparseable", ("num_unparseable",)),
    Column("censored", ("num_censored",)),
    Column("done", ("done", "planned"), "share"),
)
ISOLATION = (
    Column("arm", ("arm",), "arm"),
    Column(
        "carrier absent",
        ("num_carrier_absent", "num_carrier_checked"),
        "share",
        "neither the carrier’s text nor its token ids are in the delta",
    ),
    Column(
        "delta identical",
        ("num_delta_identical", "num_delta_checked"),
        "share",
        "the delta fed is that of every other arm, by ids",
    ),
    Column(
        "parent intact",
        ("num_parent_intact", "num_parent_checked"),
        "share",
        "the shared caches hold the same bytes before and after the arm",
    ),
    Column(
        "Layer 1 intact",
        ("num_layer1_intact", "num_layer1_measured"),
        "share",
        "the cache equals what a separate pass over the committed transcript builds, where that can be said",
    ),
    Column("violated", ("num_layer1_violated",)),
    Column("unsupp.", ("num_layer1_unsupported",), note="unsupported: this kind of cache cannot do this arm"),
    Column("refer.", ("num_layer1_reference",), note="the reference arm, which Layer 1 is not measured on"),
    Column(
        "max. distance",
        ("layer1_max_diff",),
        note="largest over trials and tensors of max|a−b| ∕ max|b|; a dash where lengths differ or nothing is measured",
    ),
    Column("tolerance", ("layer1_tolerance",), note="the distance up to which Layer 1 is intact"),
    Column("Layer 2 intact", ("num_layer2_intact", "num_layer2"), "share", "the effect is the cold arm’s effect"),
    Column(
        "intact, as cold",
        ("num_intact_cold_equal", "num_intact_compared"),
        "share",
        "of the trials with Layer 1 intact, those that reply as cold does, by ids (Proposition 1)",
    ),
)
FAMILIES = (
    Column("model", ("model",), "text"),
    Column("cache", ("cache_family",), "text"),
    Column("window", ("window_tokens",), note="tokens that a sliding window holds; a dash where there is none"),
    Column("episodes", ("num_episodes",)),
    Column("crossed", ("num_window_crossed",), note="episodes whose branch alone pushes the window past its size"),
    Column("emptied", ("num_window_emptied",), note="episodes whose branch leaves nothing committed in the window"),
    Column("stale", ("stale",), "text"),
    Column("fresh", ("fresh",), "text"),
    Column("checkpoint", ("checkpoint",), "text"),
    Column("truncate", ("truncate",), "text", note="cropped to the committed length, as the library does it"),
    Column("distance", ("truncate_max_diff",), note="the largest of the arm before it, as in Isolation"),
    Column(
        "recorded",
        ("truncate_recorded",),
        "text",
        note="truncate_recorded: the same, of a cache that recorded its past",
    ),
    Column("distance", ("truncate_recorded_max_diff",)),
    Column("tolerance", ("layer1_tolerance",)),
    Column("why unsupported", ("why_unsupported",), "text"),
)
FAILED = (
    Column("invalid", ("num_invalid",)),
    Column("failed checks", ("failed_checks",), "text", "the isolation checks that made trials invalid"),
)
BREACHES = (
    Column("model", ("model",), "text"),
    Column("arm", ("arm",), "arm"),
    Column("Layer 1 distance", ("layer1_max_diff",)),
    Column("top-two margin", ("top2_margin",)),
    Column("reply", ("reply",), "text"),
    Column("cell", ("cell_id",), "text"),
)
PROPOSITION_2 = (
    Column("model", ("model",), "text"),
    Column("arm", ("arm",), "arm"),
    Column("kind", ("kind",), "text"),
    Column("vehicle", ("vehicle",), "text"),
    Column("strength", ("strength",), "text"),
    Column("effect", ("effect",), "text"),
    Column("distance", ("layer1_max_diff",), note="of Layer 1; a dash where lengths differ"),
    Column(
        "target margin",
        ("target_margin",),
        note="log-probability of the authorised minus the unauthorised reply, "
        "in nats: negative prefers the unauthorised one",
    ),
)
