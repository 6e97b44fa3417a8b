-- One row per serving layer. By what does it find kept state again, and does an abort above it leave any behind?
-- The survey of arXiv 2608.15939, Table 7, looked up anew. `verdict`: self-healing, state is found by the content of
-- the request; prefix-matched, a kept state is cut to what the request shares with it; exposed, whoever holds the
-- handle continues what it encodes; no contract, the layer keeps no KV and says nothing of it; unknown, nobody outside
-- can see. `known_by`: run, by the test that is named; source or docs, read there and not run. Dates are of the look.
select *
from (
    values
        (
            'vLLM automatic prefix caching', 'V1, docs "latest"',
            'hash of parent block, block tokens and extras (LoRA, images, salt)',
            'none needed: a request finds full blocks of its own prefix only',
            'self-healing', 'docs', 'https://docs.vllm.ai/en/latest/design/prefix_caching/',
            cast(null as text), date '2026-11-30'
        ),
        (
            'SGLang RadixAttention', 'commit 006b0e3',
            'token ids along a radix tree, cut to whole pages, and an extra key',
            'none needed: match_prefix gives the longest prefix of the request',
            'self-healing', 'source',
            'https://github.com/sgl-project/sglang/blob/'
            || '006b0e3d317f1cd4a7300e919a4eaa878b1947e7/'
            || 'python/sglang/srt/mem_cache/radix_cache.py',
            null, date '2026-11-30'
        ),
        (
            'hash-chained pages, as modelled here', 'workers/pages.py',
            'hash of parent page and page tokens',
            'none needed: a property test explores and aborts at random',
            'self-healing', 'run', 'https://arxiv.org/abs/2312.07104',
            'tests/workers/test_pages.py::test_what_a_request_reuses_is_a_prefix_of_it', date '2026-11-30'
        ),
        (
            'TensorRT-LLM KV cache reuse', '1.4.0rc4',
            'blocks in a search structure, by matching prefix',
            'none stated: a request reuses blocks of a matching prefix',
            'self-healing', 'docs', 'https://nvidia.github.io/TensorRT-LLM/1.4.0rc4/features/kvcache.html',
            null, date '2026-11-30'
        ),
        (
            'llama.cpp server slots, cache_prompt', 'commit 00dc805',
            'tokens of the prompt against those of the slot: only the unseen suffix is evaluated',
            'none needed: what the request does not share is cut off',
            'prefix-matched', 'docs',
            'https://github.com/ggml-org/llama.cpp/blob/'
            || '00dc8057ab28c9cb4c79a6dd6dfce07fe779f63b/'
            || 'tools/server/README.md',
            null, date '2026-11-30'
        ),
        (
            'llama.cpp server slots, n_cache_reuse > 0', 'commit 00dc805',
            'chunks of equal tokens behind a gap, shifted to new positions; off by default',
            'none: a chunk behind an aborted branch was computed in its sight, and is used again (our reading)',
            'exposed', 'docs',
            'https://github.com/ggml-org/llama.cpp/blob/'
            || '00dc8057ab28c9cb4c79a6dd6dfce07fe779f63b/'
            || 'tools/server/README.md',
            null, date '2026-11-30'
        ),
        (
            'llama-cpp-python Llama.generate', '0.3.35',
            'longest common token prefix of the prompt and of what was evaluated',
            'none needed where the context can drop its tail; with reset=False the handle is retained',
            'prefix-matched', 'source',
            'https://github.com/abetlen/llama-cpp-python/blob/'
            || '3691546f1c9e0c1bf93323dff02230bd959cf562/'
            || 'llama_cpp/llama.py',
            null, date '2026-11-30'
        ),
        (
            'mlx-lm LRUPromptCache', 'commit 02901f4',
            'token ids along a trie, and the model',
            'none needed where a cache can be trimmed: a copy is trimmed to the common prefix',
            'prefix-matched', 'source',
            'https://github.com/ml-explore/mlx-lm/blob/02901f4d72afa6e22c41474ba82827eb8d964c1b/mlx_lm/models/cache.py',
            null, date '2026-11-30'
        ),
        (
            'Hugging Face DynamicCache', '5.24',
            'the object: whoever holds past_key_values continues it',
            'none: crop is there to be called, and leaves recurrent state as it is',
            'exposed', 'run', 'https://huggingface.co/docs/transformers/main/kv_cache',
            'tests/workers/engine/test_arms.py::test_stale_replies_as_if_the_branch_were_there', date '2026-11-30'
        ),
        (
            'Hugging Face generate with a kept cache', '5.24',
            'the object: lengths are compared, tokens are not',
            'none: a prompt without the branch is fed from where the cache ends',
            'exposed', 'run', 'https://huggingface.co/docs/transformers/main/kv_cache',
            'tests/workers/audit/test_audit.py::test_a_broken_session_is_caught_under_its_name', date '2026-11-30'
        ),
        (
            'LangGraph checkpointer', '1.2.24',
            'thread and checkpoint id, over the state channels',
            'none over KV: update_state branches the history of channels and rolls nothing else back',
            'no contract', 'run', 'https://docs.langchain.com/oss/langgraph/use-time-travel',
            'tests/workers/surfaces/test_langgraph.py::test_the_librarys_own_abort_does_not_reach_the_cache',
            date '2026-11-30'
        ),
        (
            'OpenAI prompt caching', 'docs',
            'exact prefix of the prompt, as documented',
            'none stated',
            'unknown', 'docs', 'https://developers.openai.com/api/docs/guides/prompt-caching?site_locale=en',
            null, date '2026-11-30'
        ),
        (
            'Anthropic prompt caching', 'docs',
            'prefix of the prompt up to a breakpoint, as documented',
            'none stated',
            'unknown', 'docs', 'https://platform.claude.com/docs/en/docs/build-with-claude/prompt-caching',
            null, date '2026-11-30'
        )
) as surveyed (
    layer, version, reuse_key, rollback_contract, verdict, known_by, evidence_url, test, checked
)
