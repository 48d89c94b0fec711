// Nothing of its own: a precompiled header of tests is made for it (tests/CMakeLists.txt).
#include "tests/support/catch.h"
