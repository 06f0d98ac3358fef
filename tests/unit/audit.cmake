pin_unit_test(test_private_dir LIBRARIES pin_private)
pin_unit_test(test_audit_log LIBRARIES pin_audit pin::jansson WRAP write)
pin_unit_test(test_audit_verify LIBRARIES pin_audit pin::jansson)
