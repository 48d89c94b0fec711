// Nothing of its own: the precompiled header of the product's tests is made for it (tests/CMakeLists.txt).
#include "tests/support/catch.h"
