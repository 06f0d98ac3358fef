pin_fuzz_target(fuzz_policy LIBRARIES pin_policy pin_base RUNS 8000)
pin_fuzz_target(fuzz_policy_json LIBRARIES pin_policy pin_base)
pin_fuzz_target(fuzz_policy_names LIBRARIES pin_policy pin_base)
pin_fuzz_target(fuzz_policy_order LIBRARIES pin_policy pin_base RUNS 4000 MAX_LEN 8192)
