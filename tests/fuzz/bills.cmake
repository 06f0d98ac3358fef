pin_fuzz_target(fuzz_bill LIBRARIES pin_bills)
