# cmake -D SOURCE=DIR -D OUT=FILE -P commit.cmake: writes the C file behind commit.h. It stays as it is while nothing has changed,
# so that a build without news compiles nothing.
set(commit unknown)
find_program(GIT git)
if(GIT)
    # Unpacked from an archive into some other working tree it has no commit of its own.
    execute_process(COMMAND ${GIT} rev-parse --show-prefix HEAD WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE said RESULT_VARIABLE status
                    ERROR_QUIET)
    if(status EQUAL 0 AND said MATCHES "^\n([0-9a-f]+)\n$")
        set(commit ${CMAKE_MATCH_1})
        execute_process(COMMAND ${CMAKE_COMMAND} -E env GIT_OPTIONAL_LOCKS=0 ${GIT} diff --quiet HEAD WORKING_DIRECTORY ${SOURCE}
                        RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
        if(NOT status EQUAL 0)
            string(APPEND commit " and changes")
        endif()
    endif()
endif()
set(text "#include \"tests/sim/commit.h\"\n\nconst char *const sim_commit = \"${commit}\";\n")
set(old "")
if(EXISTS ${OUT})
    file(READ ${OUT} old)
endif()
if(NOT "${old}" STREQUAL "${text}")
    file(WRITE ${OUT} "${text}")
endif()
