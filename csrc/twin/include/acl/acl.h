// The acl host API for whole programs on the twin: one device, the CPU. Written from the public
// documentation (names, signatures, error codes, semantics). What the documents leave open is
// marked *assumed* in csrc/twin/runtime/acl.cpp.
//
// Each function has the caller's place as a last, defaulted argument, so that a fault names the
// user's line.
#pragma once

#include "acl_base.h"
#include "acl_rt.h"

// ---- start and end
aclError aclInit(const char *configPath, twin::Where where = twin::Where::here());
aclError aclFinalize(twin::Where where = twin::Where::here());
