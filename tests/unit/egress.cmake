pin_unit_test(test_egress_spelling LIBRARIES pin_egress)
pin_unit_test(test_egress_judge LIBRARIES pin_egress)
pin_unit_test(test_egress_ranges LIBRARIES pin_egress)
pin_module(LDNS ldns) # the oracle for our DNS messages
pin_unit_test(test_egress_effort SOURCES "${CMAKE_SOURCE_DIR}/runtime/egress/broker/effort.c" "${CMAKE_SOURCE_DIR}/runtime/egress/broker/poll.c"
    LIBRARIES pin_egress WRAP effort_clock effort_spend)
pin_unit_test(test_egress_awake SOURCES "${CMAKE_SOURCE_DIR}/runtime/egress/broker/effort.c" "${CMAKE_SOURCE_DIR}/runtime/egress/broker/poll.c"
    LIBRARIES pin_egress WRAP epoll_wait sched_yield clock_gettime)
set(broker "${CMAKE_SOURCE_DIR}/runtime/egress/broker")
pin_unit_test(test_egress_entry SOURCES ${broker}/account.c ${broker}/conn.c ${broker}/dial.c ${broker}/effort.c ${broker}/entry.c ${broker}/pipe.c ${broker}/poll.c
    LIBRARIES pin_egress WRAP dial_start)
pin_unit_test(test_egress_report SOURCES "${CMAKE_SOURCE_DIR}/runtime/egress/broker/report.c" LIBRARIES pin_egress)
pin_unit_test(test_egress_openings LIBRARIES pin_egress)
pin_unit_test(test_egress_pipe SOURCES "${CMAKE_SOURCE_DIR}/runtime/egress/broker/pipe.c" WRAP fcntl)
pin_unit_test(test_egress_parsers LIBRARIES pin_egress PkgConfig::LDNS)
pin_unit_test(test_egress_svcb LIBRARIES pin_egress PkgConfig::LDNS)

# For the integration tests: a program behind a broker, without the rest of a sandbox.
add_executable(egress_harness "${CMAKE_SOURCE_DIR}/tests/integration/egress_harness.c")
target_link_libraries(egress_harness PRIVATE pin_flags pin_egress_host pin::cap)

# A sanitizer's memory is beyond the broker's limit, and its calls are no broker's.
if(NOT PIN_SANITIZE)
    pin_unit_test(test_egress_walls SOURCES "${CMAKE_SOURCE_DIR}/runtime/egress/broker/walls.c" LIBRARIES pin_base pin::seccomp pin::cap)
endif()
