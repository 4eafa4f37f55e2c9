"""Which tests have which case; test_cases.py checks that each of them is there and collected.

ROWS: the rows of the case table. POINTS: the contract's list of cases, Case 1 to 10, by operator. A
text in place of tests says why a case does not apply.
"""

from __future__ import annotations

HEAD, HEAD_GRAD = "ops/test_lm_head.py", "ops/test_lm_head_backward.py"
HEAD_CASES, HEAD_BITS = "ops/test_lm_head_cases.py", "twin/test_lm_head_bits.py"
SCHEDULES = "twin/test_lm_head_schedules.py"
LOGP, LOGP_BITS = "ops/test_logp.py", "twin/test_logp_bits.py"
LOGP_INPUTS = "ops/test_logp_inputs.py"
GEMM, GEMM_BITS = "ops/test_det_gemm.py", "twin/test_det_gemm_bits.py"
LINEAR, LINEAR_CASES = "ops/test_linear_logp.py", "ops/test_linear_logp_cases.py"
JUDGE, CONTROLS = "numerics/test_invariance_operators.py", "numerics/test_invariance_controls.py"
CONTRACT, CHECKER = "numerics/test_contract.py", "numerics/test_checker.py"
REGISTRY, FULL = "ops/test_registry.py", "test_full_width.py"
CHECK = "test_cli_check.py::test_the_default_size_with_gradients"

Tests = list[str]

ROWS: dict[str, Tests | str] = {
    "LA01-03": [f"{HEAD}::test_forward_accuracy"],
    "LA04-06": [f"{HEAD}::test_forward_fp32_accuracy"],
    "LA07-09": [f"{HEAD}::test_forward_accuracy", f"{HEAD}::test_forward_fp32_accuracy"],
    "LA10-12": [f"{HEAD}::test_leading_dims"],
    "LA13-15": [f"{HEAD}::test_gradient_accuracy", f"{HEAD_GRAD}::test_accuracy"],
    "LA16-18": [f"{HEAD}::test_gradient_accuracy", f"{HEAD_GRAD}::test_accuracy"],
    "LA19": [
        f"{HEAD}::test_rows_do_not_see_the_batch_size",
        f"{JUDGE}::test_la19_batches_up_to_300",
    ],
    "LA20": [f"{HEAD}::test_rows_do_not_see_their_position", f"{JUDGE}::test_la20_positions"],
    "LA21-22": [f"{HEAD}::test_repeats", f"{JUDGE}::test_la21_la22_repeats"],
    "LA23": [f"{REGISTRY}::test_ascend_comes_first_on_an_npu"],
    "LA24": [f"{HEAD}::test_empty"],
    "LN01": [f"{HEAD}::test_each_row_as_if_it_were_alone"],
    "LN02": [f"{HEAD}::test_the_caller_s_precision_is_ignored_and_restored"],
    "LN03": "of CUDA only",
    "LN04-05": [f"{HEAD}::test_representative_shape", CHECK],
    "LN06": [f"{HEAD}::test_leading_dims"],
    "LN07": [f"{HEAD}::test_empty", f"{HEAD_GRAD}::test_gradients_of_the_empty"],
    "LN08": [f"{HEAD}::test_bias_is_added_once"],
    "LN09-10": [
        f"{HEAD}::test_slices_and_padding",
        f"{HEAD_CASES}::test_slices_of_many_rows",
        f"{JUDGE}::test_ln09_ln10_slices_and_padding_rows",
    ],
    "LN11": [f"{HEAD}::test_inputs_are_not_changed"],
    "LN12": [f"{HEAD}::test_gradient_closed_form"],
    "LN13": [f"{FULL}::test_short_and_primary_representative_cases", f"{FULL}::test_accuracy"],
    "BL01": [f"{LOGP}::test_native_is_log_softmax_and_gather"],
    "BL02": [f"{JUDGE}::test_bl02_bl14_batch_sizes", f"{LOGP}::test_invariance"],
    "BL03": [f"{JUDGE}::test_bl03_every_position_of_16"],
    "BL04": [f"{JUDGE}::test_bl04_twenty_neighbourhoods"],
    "BL05": [f"{JUDGE}::test_bl05_padding"],
    "BL06": [f"{JUDGE}::test_bl06_bl14_fifty_repeats"],
    "BL07": [f"{LOGP}::test_ignored_rows"],
    "BL08": [f"{LOGP_INPUTS}::test_wrong_inputs", f"{LOGP}::test_targets_outside"],
    "BL09": [f"{JUDGE}::test_bl09_lp05_gradients_in_batches"],
    "BL10-11": [f"{LOGP}::test_accuracy"],
    "BL12": [f"{LOGP}::test_large_vocabulary"],
    "BL13": [f"{LOGP}::test_leading_dimensions", f"{LOGP}::test_no_rows"],
    "BL14": [
        f"{JUDGE}::test_bl02_bl14_batch_sizes",
        f"{JUDGE}::test_bl06_bl14_fifty_repeats",
    ],
    "BL15": [f"{LOGP}::test_backward_formula", f"{LOGP}::test_ignored_rows"],
    "BL16": [f"{LOGP}::test_targets_outside"],
    "BL17": [f"{LOGP}::test_backward_formula"],
    "BL18": [f"{LOGP}::test_every_vocabulary_is_taken"],
    "LP01": [
        f"{LOGP}::test_accuracy_at_every_edge_of_the_vocabulary",
        f"{LOGP}::test_leading_dimensions",
        f"{LOGP_BITS}::test_equals_the_model",
    ],
    "LP02": [f"{LOGP}::test_targets_outside", f"{LOGP_BITS}::test_targets_of_64_bits"],
    "LP03": [f"{LOGP}::test_300_rows_stride_over_blocks", f"{JUDGE}::test_lp03_300_rows"],
    "LP04": [f"{LOGP}::test_accuracy", f"{LOGP_BITS}::test_equals_the_model"],
    "LP05": [f"{JUDGE}::test_bl09_lp05_gradients_in_batches"],
    "DG01": [f"{GEMM}::test_accuracy", f"{GEMM}::test_bits_at_the_shapes_of_the_case_table"],
    "DG02": [f"{GEMM}::test_parts_of_k_combine_to_the_bits_of_the_whole"],
    "DG03": [f"{GEMM}::test_a_large_product_by_a_sample_of_its_rows"],
    "DL01": [
        f"{LOGP}::test_accuracy_at_every_edge_of_the_vocabulary",
        f"{LOGP_BITS}::test_equals_the_model",
    ],
    "DL02": [f"{JUDGE}::test_dl02_batch_and_position", f"{LOGP}::test_batch_and_position"],
    "DL03": [f"{LOGP}::test_strides_and_offsets"],
    "TC01": [
        f"{CONTRACT}::test_every_cell_is_there_and_none_has_moved",
        f"{CONTRACT}::test_fp8_is_out_of_scope",
        f"{CONTRACT}::test_a_missing_cell_has_no_default",
        f"{CONTRACT}::test_the_rule_is_not_symmetric_and_roles_are_checked",
        f"{CONTRACT}::test_nan_and_inf_fail_even_where_both_sides_have_them",
        f"{CONTRACT}::test_aggregates_refuse_what_they_cannot_judge",
    ],
    "OC01": [
        f"{CHECKER}::test_a_bad_candidate_fails_where_it_is_bad",
        f"{CHECKER}::test_ones_hide_a_mean_of_the_upstream_and_random_does_not",
    ],
    "OC02": [
        f"{CONTRACT}::test_one_ulp_fails_an_invariance_judgement",
        f"{CONTROLS}::test_exactly_one_transform_sees_it",
    ],
    "OC03": [
        f"{CONTRACT}::test_where_the_operands_come_from",
        f"{CHECKER}::test_the_configuration_reaches_the_kernel_and_the_evidence",
        "numerics/test_invariance.py::test_result_forms",
    ],
    "DI01": [
        f"{REGISTRY}::test_the_lists",
        f"{REGISTRY}::test_ascend_comes_first_on_an_npu",
        f"{REGISTRY}::test_a_broken_runtime_is_a_reason",
        f"{REGISTRY}::test_a_users_priority",
    ],
    "CI01": [
        f"{FULL}::test_short_and_primary_representative_cases",
        f"{FULL}::test_time_and_memory_of_a_call",
        f"{FULL}::test_every_form_has_the_bits_of_the_canonical_one",
        f"{FULL}::test_accuracy",
    ],
    "CI02": [f"{LOGP}::test_qwen3_vocabulary", f"{FULL}::test_log_probs_of_every_form"],
}

NO_BIAS = "it has no bias"
INSTALLED: Tests = [  # Case 10 is the same for every operator
    "build/test_aot_module.py::test_without_any_extension_both_ways_are_named",
    "build/test_aot_module.py::test_a_broken_extension_is_named_and_never_loaded",
    "build/test_aot_module.py::test_a_handle_of_a_replaced_extension_is_refused",
    "build/test_cache.py::test_a_kill_in_the_middle_of_a_build",
    f"{REGISTRY}::test_everything_is_missing",
    f"{REGISTRY}::test_what_was_found_stays_until_reset",
    f"{REGISTRY}::test_reset_forgets_built_kernels",
]

POINTS: dict[str, dict[str, Tests | str]] = {
    "Case 1: several tiles, their edges": {
        "lm_head": [
            f"{HEAD_CASES}::test_tile_edges_by_the_contract_and_across_batches",
            f"{HEAD_BITS}::test_equals_the_model",
            f"{SCHEDULES}::test_equals_the_model_and_the_other_schedule",
        ],
        "batch_invariant_logp": [
            f"{LOGP_BITS}::test_equals_the_model",
            f"{LOGP}::test_accuracy_at_every_edge_of_the_vocabulary",
        ],
        "det_gemm": [
            f"{GEMM_BITS}::test_every_edge_of_the_depth",
            f"{GEMM_BITS}::test_equals_the_model",
            f"{GEMM_BITS}::test_rows_and_columns_do_not_see_each_other",
        ],
        "linear_logp": [
            f"{LINEAR_CASES}::test_every_edge_of_the_width",
            f"{LINEAR}::test_the_bits_of_other_configurations",
        ],
    },
    "Case 2: edges of blocks, one row, one column, more than 2^31": {
        "lm_head": [
            f"{HEAD_BITS}::test_block_edges",
            f"{HEAD_BITS}::test_more_outputs_than_32_bits_count",
            f"{SCHEDULES}::test_groups_and_passes_of_every_size",
            f"{SCHEDULES}::test_more_outputs_than_32_bits_count",
            f"{HEAD_CASES}::test_block_edges_of_both_schedules",
        ],
        "batch_invariant_logp": [
            f"{LOGP}::test_invariance",
            f"{LOGP}::test_300_rows_stride_over_blocks",
            f"{LOGP_BITS}::test_one_logit_has_probability_one",
            f"{LOGP_BITS}::test_more_than_2_to_the_32_logits",
        ],
        "det_gemm": [
            f"{GEMM_BITS}::test_equals_the_model",
            f"{GEMM_BITS}::test_chosen_blocks_compute_their_turns_and_nothing_else",
            f"{GEMM_BITS}::test_more_results_than_32_bits_count",
            f"{GEMM_BITS}::test_rows_of_the_greatest_length",
        ],
        # It never holds all logits, so nothing of it counts to N V.
        "linear_logp": [f"{LINEAR_CASES}::test_shapes", f"{LINEAR}::test_every_target_column"],
    },
    "Case 3: MAX_BLOCKS, TILE_LENGTH": {
        "lm_head": [
            f"{HEAD_BITS}::test_block_edges",
            f"{SCHEDULES}::test_block_counts_change_nothing",
            f"{HEAD_CASES}::test_tiles_up_to_the_largest",
            f"{HEAD_GRAD}::test_blocks_do_not_reach_the_gradients",
            "build/test_refused.py::test_the_largest_tile_runs_and_fills_the_ub_as_the_spec_says",
        ],
        "batch_invariant_logp": [
            f"{LOGP}::test_invariance",
            f"{LOGP_BITS}::test_equals_the_model",
            f"{LOGP_BITS}::test_the_largest_tiles_are_those_of_the_spec",
        ],
        "det_gemm": [
            f"{GEMM_BITS}::test_schedules_do_not_reach_the_bits",
            f"{GEMM_BITS}::test_every_leaf_length_is_its_own_order",
        ],
        "linear_logp": [
            f"{LINEAR_CASES}::test_block_counts_change_nothing",
            f"{LINEAR}::test_the_bits_of_other_configurations",
        ],
    },
    "Case 4: batch sizes, places in them": {
        "lm_head": [
            f"{HEAD_CASES}::test_a_row_in_every_batch_and_place",
            f"{HEAD_GRAD}::test_the_gradient_of_a_row_does_not_see_the_batch",
            f"{JUDGE}::test_every_bit_is_kept",
        ],
        "batch_invariant_logp": [f"{JUDGE}::test_every_bit_is_kept", f"{LOGP}::test_invariance"],
        "det_gemm": [
            f"{JUDGE}::test_every_bit_is_kept",
            f"{GEMM_BITS}::test_rows_and_columns_do_not_see_each_other",
        ],
        "linear_logp": [
            f"{JUDGE}::test_every_bit_is_kept",
            f"{LINEAR}::test_log_probs_of_the_real_sample_do_not_see_the_batch",
            f"{LINEAR}::test_gradients_of_rows_do_not_see_the_batch",
        ],
    },
    "Case 5: special values, hard sums, overflow": {
        "lm_head": [
            f"{HEAD_BITS}::test_special_values",
            f"{HEAD_BITS}::test_hard_sums",
            f"{HEAD_BITS}::test_fp16_overflow_and_its_edge",
            f"{HEAD_BITS}::test_flush_to_zero_in_the_caller_changes_nothing",
            f"{SCHEDULES}::test_special_values",
        ],
        "batch_invariant_logp": [
            f"{LOGP_BITS}::test_special_values",
            f"{LOGP_BITS}::test_hard_sums",
            f"{LOGP}::test_large_logits",
        ],
        "det_gemm": [
            f"{GEMM_BITS}::test_special_values",
            f"{GEMM_BITS}::test_hard_sums",
            f"{GEMM_BITS}::test_ties_and_overflow_of_the_one_rounding",
            f"{GEMM}::test_flush_to_zero_in_the_caller_changes_nothing",
        ],
        "linear_logp": [f"{LINEAR}::test_what_is_not_finite", f"{LINEAR_CASES}::test_hard_sums"],
    },
    "Case 6: strides, offsets, empty, zero upstream gradients": {
        "lm_head": [
            f"{HEAD}::test_strides_and_offsets",
            f"{HEAD}::test_empty",
            f"{HEAD}::test_a_zero_upstream_gradient",
            f"{HEAD_GRAD}::test_a_zero_upstream_gradient_gives_plus_zero",
            f"{HEAD_GRAD}::test_gradients_of_the_empty",
            f"{SCHEDULES}::test_nothing_to_sum_and_nothing_to_write",
        ],
        "batch_invariant_logp": [
            f"{LOGP}::test_strides_and_offsets",
            f"{LOGP}::test_no_rows",
            f"{LOGP}::test_a_zero_upstream_gradient",
        ],
        "det_gemm": [
            f"{GEMM}::test_strides_and_offsets",
            f"{GEMM}::test_empty",
            f"{GEMM}::test_a_zero_upstream_gradient_gives_plus_zero",
        ],
        "linear_logp": [
            f"{LINEAR_CASES}::test_strides",
            f"{LINEAR_CASES}::test_shapes",
            f"{LINEAR_CASES}::test_a_zero_upstream_gradient_gives_plus_zero",
        ],
    },
    "Case 7: errors with their messages": {
        "lm_head": ["ops/test_inputs.py::test_wrong_inputs"],
        "batch_invariant_logp": [
            f"{LOGP_INPUTS}::test_wrong_inputs",
            f"{LOGP}::test_targets_outside",
        ],
        "det_gemm": [
            f"{GEMM}::test_wrong_inputs",
            f"{GEMM}::test_wrong_launches_and_configurations",
        ],
        "linear_logp": [f"{LINEAR}::test_wrong_inputs", f"{LINEAR}::test_a_target_outside"],
    },
    "Case 8: bias": {
        "lm_head": [
            f"{HEAD}::test_a_bias_at_any_column",
            f"{HEAD}::test_gradient_accuracy",
            f"{HEAD}::test_gradient_of_forward_fp32",
        ],
        "batch_invariant_logp": NO_BIAS,
        "det_gemm": NO_BIAS,
        "linear_logp": [
            f"{LINEAR}::test_the_bits_of_the_two_operators",
            f"{LINEAR}::test_forward_fp32_is_of_fp32_logits",
            f"{LINEAR}::test_only_the_gradients_that_are_wanted",
        ],
    },
    "Case 9: gradient invariance": {
        "lm_head": [
            f"{JUDGE}::test_every_bit_is_kept",
            f"{HEAD_GRAD}::test_the_gradient_of_a_row_does_not_see_the_batch",
        ],
        "batch_invariant_logp": [
            f"{JUDGE}::test_every_bit_is_kept",
            f"{JUDGE}::test_bl09_lp05_gradients_in_batches",
        ],
        "det_gemm": [f"{JUDGE}::test_every_bit_is_kept"],
        "linear_logp": [
            f"{JUDGE}::test_every_bit_is_kept",
            f"{LINEAR}::test_gradients_of_rows_do_not_see_the_batch",
        ],
    },
    "Case 10: the extension, the registry": dict.fromkeys(
        ("lm_head", "batch_invariant_logp", "det_gemm"), INSTALLED
    )
    | {"linear_logp": "it launches the kernels of lm_head, batch_invariant_logp and det_gemm"},
}

OTHERS: dict[str, Tests] = {
    "mutations": [
        "controls/test_mutants.py::test_a_named_test_catches_it",
        f"{GEMM_BITS}::test_a_mistake_in_the_kernel_is_caught",
    ],
    "controls of T1 to T7": [
        "controls/test_flawed.py::test_each_is_caught_by_name",
        "controls/test_mutants.py::test_flaws_of_the_weight_stationary_schedule",
        f"{LOGP}::test_control_a_flawed_order_is_caught_by_name",
        f"{CONTROLS}::test_exactly_one_transform_sees_it",
    ],
}
