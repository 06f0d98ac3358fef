pin_unit_test(test_oci_container LIBRARIES pin_oci pin_cgroup pin_state pin_policy pin_base pin::jansson)
pin_unit_test(test_oci_stats SOURCES "${CMAKE_SOURCE_DIR}/tools/pinfold-oci/stats.c" LIBRARIES pin_cgroup pin_state pin_base pin::jansson)
