"""The guards of the isolation, each with its removal and the tests that must notice it. A new guard is a new entry."""

from __future__ import annotations

from typing import NamedTuple

NULL = "tests/workers/test_violations.py::"
STATES = "tests/workers/test_violations_of_states.py::"
TENSORS = "tests/workers/engine/test_violations.py::"
ENGINE = "tests/workers/engine/"
SURFACES = "tests/workers/surfaces/test_surfaces.py::"
LANGGRAPH = "tests/workers/surfaces/test_langgraph.py::"
WAVES, SENTINELS = "tests/workers/test_waves.py::", "tests/workers/test_sentinel.py::"
CHECKS = "tests/analysis/test_checks.py::"
AUDIT = "tests/workers/audit/test_audit.py::"

SPLIT, ISOLATION, CELL = "workers/split.py", "workers/isolation.py", "workers/cell.py"
RECORD, WAVE, DECISION = "workers/record.py", "workers/wave.py", "workers/decision.py"
RUNNER, SENTINEL, BACKLOG = "workers/runner.py", "workers/sentinel.py", "orchestrator/backlog.py"
BENCH, GRAPH = "workers/bench.py", "workers/surfaces/langgraph/session.py"
CACHE, CAUSAL, ROPE = "workers/engine/cache.py", "workers/engine/causal.py", "workers/engine/rope.py"
PASSES, PROOFS, GENERATION = "workers/engine/passes.py", "workers/engine/proofs.py", "workers/engine/generation.py"
OVERWRITE = "workers/overwrite.py"
SHELF, SHELVES = "workers/engine/shelf/", ENGINE + "shelf/test_prefills.py::"
BATCH, POOL, GUARD = "workers/engine/batch.py", "workers/engine/pool/", ENGINE + "pool/test_guard.py::"
REPLAY = "tests/orchestrator/test_replay.py::"
DRAFTS = ENGINE + "pool/test_drafts.py::"
POOLED = ENGINE + "pool/test_batched.py::"
PARQUET, PARTS, FAULTS = "workers/parquet.py", "tests/workers/test_parquet.py::", "tests/workers/test_faults.py::"
VERIFY, DOCUMENT, SEALS = "analysis/seal/verify.py", "analysis/seal/document.py", "tests/analysis/test_seal.py::"
DOCTOR, DOCTORED = "orchestrator/doctor.py", "tests/flow/test_doctor.py::"
KILLED_COMMIT = "test_a_process_killed_at_a_step_of_a_commit_leaves_a_whole_part_or_none"
ZOMBIE = "test_a_zombie_that_commits_while_another_runs_its_block_doubles_nothing"
FULL_DISK = "test_a_disk_that_is_full_at_a_step_of_a_commit_is_one_line_and_loses_nothing"
FAILURES, ALLOCATION = "tests/orchestrator/test_failures.py::", "orchestrator/allocation.py"
RAY = "tests/orchestrator/executors/test_ray.py::"
POISON = "test_a_poison_cell_is_found_alone_in_logarithmic_attempts_and_the_rest_is_recorded"


class Mutant(NamedTuple):
    """One guard less."""

    violation: str
    """What would go unseen."""
    file: str
    guard: str
    """Stands exactly once in the file."""
    removal: str
    tests: tuple[str, ...]
    """Node ids, without parameters; at least one of their cases must fail."""


MUTANTS = (
    # The carrier in the delta
    Mutant(
        "carrier in the delta: not checked",
        ISOLATION,
        "if not bench.split.carrier_absent:",
        "if False:",
        (NULL + "test_a_carrier_in_the_delta_as_text",),
    ),
    Mutant(
        "carrier in the delta: as text",
        SPLIT,
        "carrier in text or any(",
        "any(",
        (NULL + "test_a_carrier_in_the_delta_as_text",),
    ),
    Mutant(
        "carrier in the delta: as ids",
        SPLIT,
        "carrier in text or any(_contains(ids, form) for form in engine.segmentations(carrier))",
        "carrier in text",
        (NULL + "test_a_carrier_in_the_delta_as_ids_alone",),
    ),
    Mutant(
        "carrier in the delta: as ids, alone only",
        SPLIT,
        "for form in engine.segmentations(carrier)",
        "for form in engine.segmentations(carrier)[:1]",
        (NULL + "test_a_carrier_in_the_delta_as_ids_alone",),
    ),
    Mutant(
        "carrier in the delta: as a real tokenizer writes it in context",
        "workers/engine/chat.py",
        r'_CONTEXTS = ("", " ", "\n", "\n ")',
        '_CONTEXTS = ("",)',
        (TENSORS + "test_a_carrier_in_the_delta_in_each_of_its_segmentations",),
    ),
    Mutant(
        "carrier in the delta: the paired attack's, in a control",
        "workers/studies/rollback/episodes.py",
        'carriers=(attacked, branches["attack"].carrier),',
        "carriers=(said_here.carrier,),",
        (NULL + "test_a_carrier_of_the_paired_attack_in_a_control",),
    ),
    # The delta
    Mutant(
        "unequal deltas: fed by the runner",
        ISOLATION,
        "if handle.ledger != arm.transcript(parts) + parts.delta_ids:",
        "if False:",
        (NULL + "test_a_delta_that_is_not_that_of_the_other_arms",),
    ),
    Mutant(
        "unequal deltas: fed too early, or another transcript",
        ISOLATION,
        "if held == (with_delta if arm.is_one_pass else claimed):",
        "if True:",
        (NULL + "test_a_delta_that_was_fed_already", NULL + "test_a_one_pass_arm_over_another_transcript"),
    ),
    # The split
    Mutant(
        "committed text swallowed: no sentinel branch",
        SPLIT,
        "min(common_suffix(clean.ids, branched.ids), common_suffix(clean.ids, sentinel.ids))",
        "common_suffix(clean.ids, branched.ids)",
        (NULL + "test_a_branch_that_ends_like_the_task_takes_no_committed_text",),
    ),
    Mutant(
        "committed text swallowed: not checked",
        SPLIT,
        "if excess > 0:",
        "if False:",
        (NULL + "test_a_task_that_ends_like_the_sentinel_would_be_swallowed",),
    ),
    Mutant(
        "finalize text cut",
        SPLIT,
        "not all(text in delta_text for text in asked)",
        "False",
        (NULL + "test_a_template_that_writes_into_the_finalize_turn",),
    ),
    Mutant(
        "finalize without a word",
        SPLIT,
        "if not any(asked) or",
        "if",
        ("tests/workers/test_split.py::test_a_finalize_that_says_nothing_is_refused",),
    ),
    Mutant(
        "a branch that adds nothing",
        SPLIT,
        "if branched.ids == clean.ids:",
        "if False:",
        (NULL + "test_a_branch_that_adds_nothing",),
    ),
    Mutant(
        "a split that leaves nothing",
        SPLIT,
        "if size in (0, len(clean.ids)):",
        "if False:",
        (NULL + "test_a_template_that_leaves_nothing_to_feed",),
    ),
    # The template
    Mutant(
        "a dropped message",
        SPLIT,
        "if text and _count(text, render.text) < sum(other.count(text) for other in texts):",
        "if False:",
        (NULL + "test_a_template_that_drops_a_message", TENSORS + "test_a_template_that_breaks_the_split"),
    ),
    Mutant(
        "a dropped message that another repeats",
        SPLIT,
        "if text and _count(text, render.text) < sum(other.count(text) for other in texts):",
        "if text not in render.text:",
        (NULL + "test_a_template_that_drops_a_message_whose_words_another_repeats",),
    ),
    Mutant(
        "a refusal of the template",
        RECORD,
        "if isinstance(fault, TemplateError):",
        "if False:",
        (NULL + "test_a_template_that_refuses",),
    ),
    Mutant(
        "a rewritten history",
        SPLIT,
        "if explored[: len(committed)] != committed:",
        "if False:",
        (NULL + "test_a_template_that_rewrites_history",),
    ),
    Mutant(
        "a doubled beginning",
        SPLIT,
        "if bos is not None and _contains(render.ids, (bos, bos)):",
        "if False:",
        (NULL + "test_a_template_that_doubles_the_beginning",),
    ),
    Mutant(
        "a clock in the template",
        SPLIT,
        "if render.is_dated:",
        "if False:",
        (TENSORS + "test_a_template_that_breaks_the_split",),
    ),
    # Memory
    Mutant(
        "shared storage: not checked",
        ISOLATION,
        "if bench.engine.shares_storage(handle, other):",
        "if False:",
        (STATES + "test_an_arm_that_works_on_the_shared_cache",),
    ),
    Mutant(
        "shared storage: between arms",
        ISOLATION,
        'owners += [("state of another arm", other) for other in bench.earlier()]',
        "owners += []",
        (STATES + "test_an_arm_that_works_on_the_state_of_another_arm",),
    ),
    Mutant(
        "shared storage: of tensors",
        CAUSAL,
        "return not kv.storages(ours.cache).isdisjoint(kv.storages(theirs.cache))",
        "return ours is theirs",
        (TENSORS + "test_an_arm_on_shared_storage",),
    ),
    Mutant(
        "shared storage: a copy that is not deep",
        CACHE,
        "_map_tensors(copied, lambda tensor: tensor.clone())",
        "pass",
        (TENSORS + "test_nothing_is_found_where_nothing_was_planted",),
    ),
    Mutant(
        "shared storage: a copy of what is no plain cache that is not deep",
        CACHE,
        "return copy.deepcopy(cache)",
        "return copy.copy(cache)",
        (ENGINE + "test_cache.py::test_a_fork_shares_no_storage",),
    ),
    Mutant(
        "shared storage: what crop leaves is a view",
        CACHE,
        "_map_tensors(cropped, lambda tensor: tensor.clone(memory_format=torch.contiguous_format))",
        "pass",
        (ENGINE + "test_cache.py::test_a_crop_leaves_nothing_of_the_branch_in_memory",),
    ),
    Mutant(
        "a changed parent",
        ISOLATION,
        "if not bench.is_intact():",
        "if False:",
        (STATES + "test_an_arm_that_changes_its_parent",),
    ),
    Mutant(
        "a changed parent that is used again",
        CELL,
        'all(one.row.get("parent_intact") is True for one in found)',
        'all(one.row.get("parent_intact") is not False for one in found)',
        (STATES + "test_an_arm_that_changes_its_parent_and_fails_spoils_no_other",),
    ),
    # The class
    Mutant(
        "a state of another class",
        ISOLATION,
        'if kinds != ({"session"} if may_share else set()):',
        "if False:",
        (STATES + "test_a_state_of_another_class",),
    ),
    Mutant(
        "a state of another class: of another arm",
        ISOLATION,
        "elif not may_share and bench.is_taken(handle.root):",
        "elif False:",
        (STATES + "test_a_one_pass_arm_that_goes_on_from_a_copy_of_another",),
    ),
    Mutant(
        "a reused prefix",
        ISOLATION,
        "if not may_share and handle.passes != (len(handle.ledger),):",
        "if False:",
        (
            STATES + "test_a_one_pass_arm_that_takes_two",
            STATES + "test_a_one_pass_arm_that_is_cut_from_a_longer_pass",
        ),
    ),
    Mutant(
        "a reused prefix: passes of the model",
        PASSES,
        "handle.num_fed.append(len(ids))",
        "handle.num_fed[:] = [len(handle.ids)]",
        (TENSORS + "test_a_one_pass_arm_that_reuses_a_prefix",),
    ),
    # The shelf
    Mutant(
        "a shelf: one trie for all classes",
        SHELF + "trie.py",
        "self.roots.setdefault(name, Node((), 0, None))",
        'self.roots.setdefault(name, self.roots.setdefault("", Node((), 0, None)))',
        (SHELVES + "test_classes_and_handles_share_no_memory",),
    ),
    Mutant(
        "a shelf: lent to a state of another class",
        SHELF + "prefills.py",
        "name = handle.shared_by or name",
        "pass",
        (
            SHELVES + "test_a_state_of_another_class_is_never_lent_to",
            SHELVES + "test_a_state_goes_on_in_its_own_class_whoever_feeds_it",
        ),
    ),
    Mutant(
        "a shelf: lent to a state that no class lent",
        SHELF + "prefills.py",
        "or (handle.num_held and handle.shared_by is None)",
        "",
        (SHELVES + "test_what_was_computed_for_a_state_alone_is_continued_alone",),
    ),
    Mutant(
        "a shelf: found by the ledger alone",
        SHELF + "prefills.py",
        "if not holds(handle.cache, keys[:, :, :size], values[:, :, :size]):",
        "if False:",
        (SHELVES + "test_a_damaged_state_is_not_taken_for_what_its_ledger_says",),
    ),
    Mutant(
        "a shelf: numbers for bytes",
        SHELF + "kept.py",
        "torch.equal(held.view(kind), kept.view(kind))",
        "torch.equal(held, kept)",
        (SHELVES + "test_bytes_are_compared_and_not_numbers",),
    ),
    Mutant(
        "a shelf: lent behind a mask",
        SHELF + "prefills.py",
        "if handle.hidden or",
        "if",
        (SHELVES + "test_a_mask_is_never_lent_away",),
    ),
    Mutant(
        "a shelf: its own prediction handed out",
        SHELF + "prefills.py",
        "handle.logits = run[-1].logits.clone()",
        "handle.logits = run[-1].logits",
        (SHELVES + "test_what_happens_to_a_lent_state_leaves_the_shelf_alone",),
    ),
    Mutant(
        "a shelf: no state is computed alone, too",
        SHELF + "proof.py",
        "if not found <= tolerance:",
        "if False:",
        (SHELVES + "test_a_fault_in_the_batched_passes_is_caught",),
    ),
    Mutant(
        "a shelf: classes are not compared",
        SHELF + "proof.py",
        "if found > tolerance:",
        "if False:",
        (SHELVES + "test_a_fault_in_one_row_is_caught_by_the_other_classes",),
    ),
    Mutant(
        "a shelf: lent in spite of a broken proof",
        SHELF + "prefills.py",
        "node.kept = None\n            raise",
        "pass\n            raise",
        (SHELVES + "test_a_fault_in_the_batched_passes_is_caught",),
    ),
    Mutant(
        "a shelf: states that are no numbers",
        SHELF + "prefills.py",
        "node.is_cut and not logits[row].isnan().any()",
        "node.is_cut",
        (SHELVES + "test_a_state_that_is_no_number_is_lent_to_nobody_and_spoils_none",),
    ),
    Mutant(
        "a shelf: states that are no numbers, in the place of which others come",
        SHELF + "prefills.py",
        "if logits.isnan().any():",
        "if False:",
        (SHELVES + "test_a_state_that_is_no_number_is_lent_to_nobody_and_spoils_none",),
    ),
    Mutant(
        "a shelf: states beyond a rotary switch",
        SHELF + "prefills.py",
        "if self.limit is None or sum(map(len, chain)) <= self.limit:",
        "if True:",
        (SHELVES + "test_nothing_beyond_a_rotary_switch_is_put_on_a_shelf",),
    ),
    # The cache
    Mutant(
        "a swallowed cache argument",
        CACHE,
        "if lengths != {num_tokens}:",
        "if False:",
        (TENSORS + "test_a_cache_argument_that_forward_swallows",),
    ),
    Mutant(
        "a swallowed cache argument: seen one pass later",
        PASSES,
        "self._kind.check(handle.cache, len(handle.ids))",
        "pass",
        (ENGINE + "test_feed.py::test_a_cache_argument_that_forward_swallows_is_caught",),
    ),
    Mutant(
        "a swallowed cache argument: of a recurrent model",
        CACHE,
        "if num_tokens and next(tensors(cache), None) is None:",
        "if False:",
        (TENSORS + "test_a_cache_argument_that_forward_swallows",),
    ),
    Mutant(
        "a crop of another length: by the library",
        CACHE,
        "self.check(cropped, num_kept)",
        "pass",
        (ENGINE + "test_cache.py::test_a_library_crop_of_another_length_is_caught_at_once",),
    ),
    Mutant(
        "a crop of another length: by the arm",
        ISOLATION,
        'else:\n        yield "prefix_differs", ',
        'elif False:\n        yield "prefix_differs", ',
        (STATES + "test_a_crop_that_leaves_or_takes_a_token_too_many",),
    ),
    Mutant(
        "a cache of another model",
        "workers/engine/handle.py",
        "if not isinstance(handle, CacheHandle) or handle.owner != owner:",
        "if not isinstance(handle, CacheHandle):",
        (TENSORS + "test_a_cache_of_another_model_of_the_same_shape",),
    ),
    Mutant(
        "the tensors of another conversation",
        CELL,
        "distance is not None and distance <= tolerance",
        "distance is not None",
        (TENSORS + "test_the_tensors_of_another_conversation_are_a_layer_1_violation",),
    ),
    Mutant(
        "a state that is no number",
        CACHE,
        "if size > 0 and gap == gap else",
        "if size > 0 else",
        (ENGINE + "test_cache.py::test_a_state_that_is_not_a_number_is_not_close",),
    ),
    # The rotary embedding
    Mutant(
        "a rotary switch: the episode",
        WAVE,
        "engine.check_span(len(parts.committed_ids), _longest(parts, work))",
        "pass",
        (STATES + "test_an_episode_that_may_cross_a_rotary_switch",),
    ),
    Mutant(
        "a rotary switch: the decode budget",
        WAVE,
        "len(parts.branched_ids) + len(parts.delta_ids) + budget",
        "len(parts.branched_ids) + len(parts.delta_ids)",
        (TENSORS + "test_a_rotary_switch_within_reach_of_the_longest_reply",),
    ),
    Mutant(
        "a rotary switch: the model",
        ROPE,
        "if self.limit is not None and longest > self.limit and (self.is_dynamic or shortest <= self.limit):",
        "if False:",
        (TENSORS + "test_a_rotary_switch_within_reach_of_the_longest_reply",),
    ),
    Mutant(
        "a rotary switch: dynamic, wholly beyond",
        ROPE,
        "and (self.is_dynamic or shortest <= self.limit):",
        "and shortest <= self.limit:",
        (ENGINE + "test_feed.py::test_a_span_of_lengths_must_not_reach_a_rope_switch",),
    ),
    Mutant(
        "a rotary switch: in a feed",
        ROPE,
        "if self.is_dynamic or 0 < before <= self.limit:",
        "if False:",
        (ENGINE + "test_feed.py::test_a_cache_is_not_continued_across_a_rope_switch",),
    ),
    Mutant(
        "a rotary switch: in a crop",
        ROPE,
        "if self.limit is not None and before > self.limit >= after:",
        "if False:",
        (ENGINE + "test_feed.py::test_a_cache_is_not_cropped_back_across_a_rope_switch",),
    ),
    # The mask and the paths
    Mutant(
        "a mask that the model swallows",
        PROOFS,
        "if not torch.equal(clean, behind):",
        "if False:",
        (ENGINE + "test_mask.py::test_a_model_that_swallows_its_mask_is_refused",),
    ),
    Mutant(
        "a mask that hides more than its span",
        PROOFS,
        "if torch.equal(clean, beside):",
        "if False:",
        (ENGINE + "test_mask.py::test_a_model_whose_mask_hides_everything_is_refused",),
    ),
    Mutant(
        "a mask that a crop forgets",
        CAUSAL,
        "hidden = clipped(mine.hidden, length)",
        "hidden = ()",
        (ENGINE + "test_mask.py::test_a_mask_goes_with_every_fork_and_crop",),
    ),
    Mutant(
        "a mask that the digest does not see",
        CAUSAL,
        "return kv.digest(mine.cache, (mine.ids, mine.hidden))",
        "return kv.digest(mine.cache, mine.ids)",
        (ENGINE + "test_mask.py::test_a_masked_handle_is_its_own_and_its_parent_stays",),
    ),
    Mutant(
        "a mask on a path that takes none",
        PASSES,
        'if self._path == "default" and handle.hidden:',
        "if False:",
        (ENGINE + "test_mask.py::test_the_default_path_takes_no_mask",),
    ),
    Mutant(
        "positions that move behind a mask",
        GENERATION,
        "if handle.hidden:",
        "if False:",
        (ENGINE + "test_mask.py::test_generate_replies_behind_a_mask_as_our_own_forward_does",),
    ),
    Mutant(
        "a path on which the framework forgets",
        PROOFS,
        "if noise is None or not noise <= tolerance:",
        "if False:",
        (ENGINE + "test_paths.py::test_a_path_on_which_the_framework_forgets_is_unsupported",),
    ),
    Mutant(
        "a reply coloured by the model's own settings",
        GENERATION,
        'mock.patch.object(model, "generation_config", GenerationConfig())',
        'mock.patch.object(model, "generation_config", model.generation_config)',
        (ENGINE + "test_paths.py::test_the_model_s_own_generation_settings_do_not_colour_the_reply",),
    ),
    # The position control
    Mutant(
        "a position control that keeps a token",
        OVERWRITE,
        "while pool[at % len(pool)] == ids[place]:",
        "while False:",
        (
            "tests/workers/test_overwrite.py::test_every_overwritten_token_is_another_one_even_where_the_carrier_is_the_filler",
        ),
    ),
    Mutant(
        "a position control that leaves the carrier",
        OVERWRITE,
        "if any(form in text for form in _forms(words)):",
        "if False:",
        ("tests/workers/test_overwrite.py::test_a_carrier_that_cannot_be_told_is_refused_with_the_reason",),
    ),
    Mutant(
        "a position control that stops at the branch's edge",
        OVERWRITE,
        "if any(not inside.isdisjoint(tokens) and not inside.issuperset(tokens) for tokens in written):",
        "if False:",
        ("tests/workers/test_overwrite.py::test_a_carrier_that_reaches_beyond_the_branch_is_refused",),
    ),
    # Surfaces
    Mutant(
        "a surface that decides on another state",
        BENCH,
        "if state is not handle:",
        "if False:",
        (SURFACES + "test_an_application_that_shows_a_restored_state_and_decides_on_another",),
    ),
    Mutant(
        "LangGraph: a thread that never held the branch",
        GRAPH,
        "if not turns or len(list(self._of_branch(self.before))) != len(turns):",
        "if False:",
        (LANGGRAPH + "test_a_thread_without_the_branch",),
    ),
    Mutant(
        "LangGraph: an abort that keeps the branch's messages",
        GRAPH,
        "if next(self._of_branch(after), None) is not None:",
        "if False:",
        (LANGGRAPH + "test_an_abort_that_removes_no_message",),
    ),
    Mutant(
        "LangGraph: an abort that keeps what the branch's messages say",
        GRAPH,
        "if message.id in names or message.text in branch - committed:",
        "if message.id in names:",
        (LANGGRAPH + "test_an_abort_that_keeps_the_message_under_another_id",),
    ),
    Mutant(
        "LangGraph: an abort of another checkpoint",
        GRAPH,
        "if _checkpoint(after.parent_config) != _checkpoint(self.before.config):",
        "if False:",
        (LANGGRAPH + "test_an_abort_that_forks_from_another_checkpoint",),
    ),
    Mutant(
        "LangGraph: an abort that goes back too far",
        GRAPH,
        'if after.next != ("decide",):',
        "if False:",
        (LANGGRAPH + "test_an_abort_that_goes_back_too_far",),
    ),
    Mutant(
        "LangGraph: a resume that runs other nodes",
        GRAPH,
        "if tuple(ran) != expected:",
        "if False:",
        (LANGGRAPH + "test_a_resume_from_the_beginning",),
    ),
    # No verdict
    Mutant(
        "a verdict of an invalid trial: of a state",
        CELL,
        'Pending(row | {"cache_length": held.get("cache_length")})',
        "Pending(row | held)",
        (STATES + "test_a_one_pass_arm_that_takes_two",),
    ),
    Mutant(
        "a verdict of an invalid trial: of a reply",
        DECISION,
        'if row["status"] == "invalid":',
        "if False:",
        (STATES + "test_an_arm_that_changes_its_parent",),
    ),
    Mutant(
        "a verdict of an invalid trial: in SQL",
        "sql/checks/verdict_not_done.sql",
        "where status <> 'done'",
        "where status = 'none'",
        (CHECKS + "test_a_verdict_of_an_invalid_trial_is_found",),
    ),
    Mutant(
        "a done trial that is not isolated: in SQL",
        "sql/checks/isolation_unproven.sql",
        "where status = 'done'",
        "where status = 'none'",
        (CHECKS + "test_each_isolation_fault_of_a_done_trial_is_found",),
    ),
    # Somebody's own session
    Mutant(
        "an acquittal by a session's own word",
        "workers/audit/judge.py",
        "if not hidden:",
        'if not hidden or evidence == "tokens":',
        (AUDIT + "test_nobody_is_acquitted_by_a_reply_that_could_not_have_shown_anything",),
    ),
    Mutant(
        "an acquittal by a reply that rules nothing out",
        "workers/audit/judge.py",
        "if not hidden:",
        "if True:",
        (AUDIT + "test_nobody_is_acquitted_by_a_reply_that_could_not_have_shown_anything",),
    ),
    Mutant(
        "an acquittal by a cache's length",
        "workers/audit/oracle.py",
        "if gap is not None and gap <= self.engine.facts.layer1_tolerance:",
        "if gap is not None:",
        (AUDIT + "test_a_crop_that_leaves_a_recurrent_state_is_no_committed_state",),
    ),
    Mutant(
        "pages of another request: named without what stands before them",
        "workers/pages.py",
        """text = f"{parent}\\x1f{','.join(map(str, ids))}\"""",
        "text = ','.join(map(str, ids))",
        ("tests/workers/test_pages.py::test_what_a_request_reuses_is_a_prefix_of_it",),
    ),
    # Shared passes and batches
    Mutant(
        "a state from another class's shelf",
        ISOLATION,
        "if handle.shared_by not in (None, class_of(arm)):",
        "if False:",
        (ENGINE + "test_sharing.py::test_a_state_from_the_shelf_of_another_class",),
    ),
    Mutant(
        "a decode shared by tokens instead of by bytes",
        DECISION,
        "made = bench.engine.fingerprint(state)",
        "made = repr(state.ledger)",
        (WAVES + "test_a_state_with_one_bit_changed_gets_its_own_decode",),
    ),
    Mutant(
        "a decode shared by other noise",
        DECISION,
        "keys = [(made, one.ask, texts) for one in asks]",
        "keys = [(made, asks[0].ask, texts) for one in asks]",
        (WAVES + "test_draws_are_shared_only_with_the_same_noise",),
    ),
    Mutant(
        "a decode shared on a path of the framework's",
        DECISION,
        'is_ours = bench.surface.path == "explicit"',
        "is_ours = True",
        (WAVES + "test_a_surface_on_another_path_shares_nothing",),
    ),
    Mutant(
        "a state that is taken in after the surface went on",
        CELL,
        "return bench.decide(handle, read, is_one_pass=arm.is_one_pass), failed",
        "return bench.decide(handle, lambda _: None, is_one_pass=arm.is_one_pass) or read(handle), failed",
        (WAVES + "test_a_surface_that_goes_on_with_its_state_changes_no_reply",),
    ),
    Mutant(
        "strict isolation that shares prefills",
        RUNNER,
        "shelf = None if is_strict or is_early else self._shelf(wave)",
        "shelf = None if is_early else self._shelf(wave)",
        (WAVES + "test_strict_isolation_shares_nothing",),
    ),
    Mutant(
        "strict isolation that shares decodes",
        RUNNER,
        "decode_once = self.decode_once and not is_strict and not is_early",
        "decode_once = self.decode_once and not is_early",
        (
            WAVES + "test_sealed_columns_do_not_depend_on_how_rows_were_computed",
            WAVES + "test_strict_isolation_shares_nothing",
        ),
    ),
    Mutant(
        "no sentinel",
        RUNNER,
        "if alarm := self.sentinel.alarm(found, is_shared=shelf is not None):",
        'if alarm := "":',
        (SENTINELS + "test_a_wrong_reply_of_any_row_ends_the_block_and_the_model",),
    ),
    Mutant(
        "a sentinel that looks at one arm",
        SENTINEL,
        "while unseen:",
        "if unseen:",
        (SENTINELS + "test_every_shape_of_batch_is_repeated_for_every_arm",),
    ),
    Mutant(
        "a sentinel that does not look at scores",
        SENTINEL,
        "if not _is_near(value, row[name], near):",
        "if False:",
        (SENTINELS + "test_a_wrong_score_of_a_row_is_found",),
    ),
    Mutant(
        "a sentinel that takes the shared decode's word for the arm's",
        SENTINEL,
        'row["decoded_with"] is not None)',
        "False)",
        (SENTINELS + "test_an_arm_that_shares_a_decode_alone_is_repeated_through_its_own_state",),
    ),
    Mutant(
        "rows of a block that was found wrong",
        RUNNER,
        "rows[episode.at] = [record.distrusted(row, found_wrong) for row in rows[episode.at]]",
        "pass",
        (SENTINELS + "test_a_wrong_reply_of_any_row_ends_the_block_and_the_model",),
    ),
    Mutant(
        "a model that was found wrong and goes on",
        BACKLOG,
        "self.barred, self.is_stopped = reason, True",
        "self.barred = reason",
        (
            "tests/orchestrator/test_schedule.py::test_a_model_that_was_found_wrong_runs_no_further_block_and_the_others_go_on",
        ),
    ),
    # A full device
    Mutant(
        "a full device: a crop that runs out of memory reads as unsupported",
        CACHE,
        "with memory_errors():\n                cropped.crop",
        "if True:\n                cropped.crop",
        (ENGINE + "test_memory.py::test_a_device_that_fills_up_in_any_call_makes_no_trial_an_error_or_unsupported",),
    ),
    Mutant(
        "a full device: measuring Layer 1 runs out of memory and reads as an error",
        CAUSAL,
        "@memory_errors()\n    def distance",
        "def distance",
        (ENGINE + "test_memory.py::test_a_device_that_fills_up_in_any_call_makes_no_trial_an_error_or_unsupported",),
    ),
    # The abort that starts over, and the one decision
    Mutant(
        "crossed classes: a checkpoint in the place of a new pass, where nobody looked at the session yet",
        BENCH,
        "if state not in made:",
        "if False:",
        (SURFACES + "test_an_application_that_restores_its_checkpoint_where_it_should_start_over",),
    ),
    Mutant(
        "a decision that is read twice, or not at all",
        BENCH,
        "if len(found) != 1:",
        "if False:",
        (SURFACES + "test_an_application_that_decides_twice", SURFACES + "test_an_application_that_decides_nothing"),
    ),
    # States side by side
    Mutant(
        "a batch: another row's position",
        BATCH,
        '"position_ids": positions.clamp(min=0),',
        '"position_ids": positions.clamp(min=0).roll(1, 0),',
        (GUARD + "test_an_honest_batch_is_not_refused",),
    ),
    Mutant(
        "a batch: a neighbour's mask",
        BATCH,
        "self._mask(fed, positions, window),",
        "self._mask(fed, positions, window).roll(1, 0),",
        (GUARD + "test_an_honest_batch_is_not_refused",),
    ),
    Mutant(
        "a batch: a stale slot where a row has left",
        BATCH,
        "buffer[row, :, :length] = buffer[last, :, :length]",
        "buffer[row, :, 1:length] = buffer[last, :, 1:length]",
        (GUARD + "test_an_honest_batch_is_not_refused",),
    ),
    Mutant(
        "a batch that computes wrongly, believed",
        POOL + "noise.py",
        "if found <= self.tolerance * size:",
        "if True:",
        (
            GUARD + "test_a_wrong_position_in_any_row_is_noticed",
            GUARD + "test_a_neighbour_s_mask_in_any_row_is_noticed",
            GUARD + "test_logits_that_are_no_numbers_are_refused",
        ),
    ),
    Mutant(
        "a batch that computes wrongly only after it was proven",
        "workers/sentinel.py",
        'return self.engine.pool(is_batched=True).recheck() if is_due else ""',
        'return ""',
        ("tests/workers/engine/test_planted_batches.py::test_an_error_that_comes_later_is_met_whichever_row_is_wrong",),
    ),
    Mutant(
        "a replay that compares nothing sealed",
        "orchestrator/replay.py",
        "if not (column.is_sealed or _is_measure(column)):",
        "if not _is_measure(column):",
        (REPLAY + "test_an_altered_observation_is_different",),
    ),
    Mutant(
        "a replay that takes any float for noise",
        "orchestrator/replay.py",
        "abs(one - other) <= near)",
        "True)",
        (REPLAY + "test_a_float_within_the_noise_is_told_apart_from_one_beyond_it",),
    ),
    Mutant(
        "a replay that believes an altered question",
        "orchestrator/replay.py",
        "        if not is_held:",
        "        if False:",
        (REPLAY + "test_an_altered_question_is_told_before_anything_is_compared",),
    ),
    Mutant(
        "a reply read along a text: one id too many in the row",
        POOL + "lane.py",
        "seat.state.num_tokens + len(chosen.tokens) - 1)",
        "seat.state.num_tokens + len(chosen.tokens))",
        (DRAFTS + "test_a_reply_along_a_text_is_the_reply_that_it_is_alone",),
    ),
    Mutant(
        "a reply read along a text that another reply has written over",
        POOL + "lane.py",
        "            self.seats[row].draft = None",
        "            pass",
        (DRAFTS + "test_a_reply_along_a_text_is_the_reply_that_it_is_alone",),
    ),
    Mutant(
        "a reply read along a text that another text was fed in the place of",
        POOL + "feeding.py",
        "self.order = sorted(self.sums, key=lambda at: texts[at][size] == way)",
        "self.order = list(self.sums)",
        (DRAFTS + "test_what_a_scored_text_tells_is_not_stepped_again",),
    ),
    Mutant(
        "a reply read along a text beyond where it leaves it",
        POOL + "feeding.py",
        "if ours != theirs), len(chosen.tokens))",
        "if False), len(chosen.tokens))",
        (DRAFTS + "test_a_reply_along_a_text_is_the_reply_that_it_is_alone",),
    ),
    Mutant(
        "a reply alone along a text: what it leaves stays in the cache",
        "workers/engine/passes.py",
        "if num_kept < len(fed):",
        "if False:",
        (DRAFTS + "test_a_reply_alone_may_go_along_a_text_too",),
    ),
    Mutant(
        "a reply read in one pass under kernels that are not proven",
        "workers/engine/causal.py",
        'is_stepped = is_timed or self._path != "explicit" or not self._is_exact',
        "is_stepped = is_timed",
        (DRAFTS + "test_kernels_that_are_not_proven_step",),
    ),
    Mutant(
        "a batch: what is no number stays in a place that is given on",
        POOL + "lane.py",
        "self.batch.wipe(row)",
        "pass",
        (POOLED + "test_what_is_no_number_in_one_row_hurts_no_other",),
    ),
    Mutant(
        "a near tie that a batch decided",
        POOL + "lane.py",
        "if self.noise and min(seat.chosen.margins) <= 2 * self.noise:",
        "if False:",
        (GUARD + "test_exactly_the_replies_within_twice_the_noise_are_read_again",),
    ),
    Mutant(
        "a near tie of which one logit alone is doubted",
        POOL + "lane.py",
        "min(seat.chosen.margins) <= 2 * self.noise:",
        "min(seat.chosen.margins) <= self.noise:",
        (GUARD + "test_exactly_the_replies_within_twice_the_noise_are_read_again",),
    ),
    Mutant(
        "a sentinel that lets another reply pass",
        POOL + "choosing.py",
        "token != ids[at]",
        "False",
        (GUARD + "test_a_reply_agrees_with_the_state_that_gave_it_and_no_other_does",),
    ),
    # Faults
    Mutant(
        "a file that is being written and looks like a part",
        PARQUET,
        '.hex}.tmp"',
        '.hex}.parquet"',
        (PARTS + "test_what_is_being_written_matches_no_glob_of_a_reader", FAULTS + KILLED_COMMIT),
    ),
    Mutant(
        "the second commit of a name replaces the first",
        PARQUET,
        "    except FileExistsError:\n        return False\n",
        "    except FileExistsError:\n        os.replace(beside, final)\n",
        (PARTS + "test_committing_twice_is_committing_once_and_the_first_wins", FAULTS + ZOMBIE),
    ),
    Mutant(
        "a full disk: what was half written stays",
        PARQUET,
        "beside.unlink(missing_ok=True)",
        "pass",
        (FAULTS + FULL_DISK,),
    ),
    Mutant(
        "a full disk: no line for the user",
        PARQUET,
        "except OSError as failure:",
        "except ZeroDivisionError as failure:",
        (PARTS + "test_a_write_that_fails_is_one_line_and_leaves_nothing",),
    ),
    Mutant(
        "a damaged part is taken for a sound one",
        "workers/store.py",
        "    except StoreError:\n        return False\n",
        "    except StoreError:\n        return True\n",
        (PARTS + "test_a_damaged_part_is_seen_and_set_aside_whole",),
    ),
    Mutant(
        "a part of other types or names is taken for ours",
        "workers/store.py",
        "if not _is_ours(path, schema)",
        "if False",
        (PARTS + "test_a_part_with_other_types_or_names_is_not_ours",),
    ),
    Mutant(
        "a block that kills its worker is not halved",
        BACKLOG,
        "if is_enough and block.num_trials > 1:",
        "if False:",
        (FAILURES + POISON,),
    ),
    Mutant(
        "failures of all classes are counted together",
        "orchestrator/history.py",
        "return self.counts.get(failure, 0) >= ",
        "return sum(self.counts.values()) >= ",
        (FAILURES + "test_budgets_of_the_classes_are_separate",),
    ),
    Mutant(
        "a retry where it failed",
        ALLOCATION,
        "is_doubtful = slot.place in cordoned or slot.place == history.place",
        "is_doubtful = slot.place in cordoned",
        (FAILURES + "test_the_first_retry_goes_elsewhere",),
    ),
    Mutant(
        "a device that fails what others finish goes on",
        ALLOCATION,
        "is_doubtful = slot.place in cordoned or slot.place == history.place",
        "is_doubtful = slot.place == history.place",
        (FAILURES + "test_a_device_that_fails_what_others_finish_is_cordoned_and_reported",),
    ),
    Mutant(
        "a device is cordoned for a loss now and then",
        "orchestrator/places.py",
        "        self._doubts.pop(place, None)\n        self._trusted_at[place] = self._num_falls\n",
        "",
        (
            FAILURES
            + "test_a_device_is_not_cordoned_for_blocks_that_fail_everywhere_nor_for_losses_between_blocks_done",
        ),
    ),
    Mutant(
        "a worker that hangs is waited for",
        "orchestrator/schedule.py",
        "if self._hang_s is not None and now_s - self._heard[slot][1] > self._hang_s:",
        "if False:",
        (FAILURES + "test_a_worker_that_hangs_is_closed_and_its_block_goes_to_another",),
    ),
    Mutant(
        "a lost machine counts as a lost worker",
        "orchestrator/executors/ray/errors.py",
        "return FailureClass.PREEMPTED if is_gone else FailureClass.LOST",
        "return FailureClass.LOST",
        (RAY + "test_a_machine_that_joins_is_used_and_one_that_leaves_is_done_without",),
    ),
    Mutant(
        "a full device is taken for a broken trial",
        "workers/errors.py",
        "    if is_named or any(words in str(error) for words in _FULL):",
        "    if False:",
        (
            "tests/workers/test_memory.py::test_whatever_memory_is_left_rows_are_those_of_plenty_or_it_is_said_to_be_too_little",
        ),
    ),
    Mutant(
        "no larger slot is asked for",
        "orchestrator/history.py",
        "if fall.failure is FailureClass.MEMORY and self.needs < most:",
        "if False:",
        (FAILURES + "test_what_needs_more_memory_gets_a_larger_slot_and_the_rest_keeps_its_own",),
    ),
    Mutant(
        "a second signal that does not end at once",
        "orchestrator/stop.py",
        "if self.requests >= 2:",
        "if False:",
        ("tests/orchestrator/test_stop.py::test_a_signal_asks_once_and_the_second_ends_at_once",),
    ),
    Mutant(
        "a doctor blind to doubled rows",
        DOCTOR,
        "if count > 1:",
        "if False:",
        (DOCTORED + "test_a_doubled_a_foreign_and_a_damaged_row_are_seen",),
    ),
    Mutant(
        "a doctor that believes in kills that never happened",
        DOCTOR,
        "if not claim.exists():",
        "if False:",
        (DOCTORED + "test_a_kill_that_never_happened_is_no_proof",),
    ),
    # Seal, diff and gate
    Mutant(
        "a seal that another result keeps",
        VERIFY,
        "if models != seal.models:",
        "if False:",
        (SEALS + "test_one_changed_value_is_found_in_its_file_row_and_column",),
    ),
    Mutant(
        "a seal under which a value moves to another column",
        "analysis/seal/digests.py",
        "coalesce({literal(f'{column}=')} || {name}",
        "coalesce({literal('=')} || {name}",
        (SEALS + "test_what_is_null_is_told_from_what_is_empty_and_values_from_their_neighbours",),
    ),
    Mutant(
        "a seal blind to rows that are gone",
        "sql/pairs/changed_rows.sql",
        "where a.digests is distinct from b.digests",
        "where a.digests <> b.digests",
        (SEALS + "test_a_deleted_part_is_found_and_each_of_its_rows_is_gone",),
    ),
    Mutant(
        "a seal blind to a part that is gone",
        VERIFY,
        "elif name not in found:",
        "elif False:",
        (SEALS + "test_a_deleted_part_whose_rows_stand_in_another_is_a_warning",),
    ),
    Mutant(
        "a seal to which a damaged part is a warning",
        VERIFY,
        '"damaged: it cannot be read")',
        '"damaged: it cannot be read", is_difference=False)',
        (SEALS + "test_a_damaged_part_is_found_and_the_rest_is_still_compared",),
    ),
    Mutant(
        "a seal blind to another plan",
        VERIFY,
        "findings += _of_plans(seal.plans, plans_of(warehouse))",
        "pass",
        (SEALS + "test_a_changed_plan_is_found",),
    ),
    Mutant(
        "a seal blind to another configuration",
        VERIFY,
        "if sealed.get(name) != found.get(name)]",
        "if False]",
        (SEALS + "test_a_changed_configuration_is_found_and_a_lost_one_too",),
    ),
    Mutant(
        "a seal that may be edited",
        DOCUMENT,
        'elif said.get("sha256") != own_digest(',
        "elif not own_digest(",
        (SEALS + "test_a_seal_that_was_edited_is_found",),
    ),
    Mutant(
        "a seal whose root is whatever it says",
        DOCUMENT,
        'if said["root"] != seal.root:',
        "if False:",
        (SEALS + "test_a_root_that_was_edited_with_care_is_still_not_its_models",),
    ),
    Mutant(
        "a seal that believes whatever rows lie beside it",
        VERIFY,
        "rows.exists() and sha256_of(rows) != seal.rows:",
        "False:",
        (SEALS + "test_rows_beside_the_seal_that_were_changed_are_found_and_not_believed",),
    ),
    Mutant(
        "a seal of a store in which a run is at work",
        DOCUMENT,
        "if digests_of_files(warehouse.root) != files:",
        "if False:",
        (SEALS + "test_a_store_in_which_a_run_is_at_work_is_not_sealed",),
    ),
    Mutant(
        "a seal of another form that is read as this one",
        DOCUMENT,
        'if said["form"] != FORM:',
        "if False:",
        (SEALS + "test_a_seal_of_an_older_form_says_to_seal_anew",),
    ),
)
