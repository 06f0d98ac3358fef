pin_unit_test(test_bill LIBRARIES pin_bills)
