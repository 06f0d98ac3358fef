pin_unit_test(test_oci_container LIBRARIES pin_oci pin_cgroup pin_state pin_policy pin_base pin::jansson)
