pin_fuzz_target(fuzz_users LIBRARIES pin_base)
