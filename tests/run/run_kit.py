"""What the tests of `workbench run` share."""

# What most programs begin with.
START = """#include "acl/acl.h"
#include "kernel_operator.h"
#include <cstdint>
#include <cstdio>
#include <cstdlib>
"""
