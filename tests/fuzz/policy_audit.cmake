pin_fuzz_target(fuzz_audit_inputs LIBRARIES pin_policy_audit RUNS 8000)
pin_fuzz_target(fuzz_audit_diff LIBRARIES pin_policy_audit RUNS 1500 MAX_LEN 8192)
