// The one PYBIND11_MODULE: it launches any kernel of the file it is linked with, by name. It sees
// addresses and numbers only (tensors stay in Python), so it is compiled once and linked with every
// variant.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "kernel_table.h"

namespace py = pybind11;

namespace {

const wb_kernel &find(const std::string &name) {
    const wb_table *table = wb_kernel_table();
    std::string known;
    for (uint32_t i = 0; i < table->n_kernels; ++i) {
        if (name == table->kernels[i].name) {
            return table->kernels[i];
        }
        known += (i == 0 ? "" : ", ") + std::string(table->kernels[i].name);
    }
    throw py::key_error("no kernel " + name + " in this module; it has " + known);
}

template <typename T>
uint64_t slot(T value) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    return bits;
}

[[noreturn]] void bad_argument(const wb_kernel &kernel, const wb_parameter &parameter,
                               const py::handle &given) {
    throw py::type_error(std::string(kernel.name) + ": parameter " + parameter.name + " is " +
                         parameter.type + "; got " + std::string(py::str(py::repr(given))));
}

uint64_t integer(const wb_kernel &kernel, const wb_parameter &parameter, const py::handle &given) {
    if (!PyLong_Check(given.ptr())) {
        bad_argument(kernel, parameter, given);
    }
    const int bits = parameter.size * 8;
    if (parameter.kind == 'i') {
        long long value = PyLong_AsLongLong(given.ptr());
        bool failed = PyErr_Occurred() != nullptr;
        PyErr_Clear();
        if (failed ||
            (bits < 64 && (value < -(1LL << (bits - 1)) || value >= (1LL << (bits - 1))))) {
            bad_argument(kernel, parameter, given);
        }
        return static_cast<uint64_t>(
            value);  // two's complement: the low bytes are the narrower value
    }
    unsigned long long value = PyLong_AsUnsignedLongLong(given.ptr());
    bool failed = PyErr_Occurred() != nullptr;
    PyErr_Clear();
    if (failed || (bits < 64 && value >= (1ULL << bits))) {
        bad_argument(kernel, parameter, given);
    }
    return value;
}

uint64_t real(const wb_kernel &kernel, const wb_parameter &parameter, const py::handle &given) {
    if (!PyFloat_Check(given.ptr()) && !PyLong_Check(given.ptr())) {
        bad_argument(kernel, parameter, given);
    }
    const double value = PyFloat_AsDouble(given.ptr());
    if (PyErr_Occurred() != nullptr) {  // an integer beyond any double
        PyErr_Clear();
        bad_argument(kernel, parameter, given);
    }
    return slot(value);
}

uint64_t pack(const wb_kernel &kernel, const wb_parameter &parameter, const py::handle &given) {
    switch (parameter.kind) {
        case 'f':
            return real(kernel, parameter, given);
        case 'b':
            if (!PyBool_Check(given.ptr())) {
                bad_argument(kernel, parameter, given);
            }
            return slot(given.ptr() == Py_True);
        case 's':
            throw py::type_error(std::string(kernel.name) + ": parameter " + parameter.name +
                                 " is " + parameter.type +
                                 ", which is neither an address nor a number, so it cannot be "
                                 "passed. Give the kernel its fields one by one, or the address "
                                 "of a tensor that holds them");
        default:
            return integer(kernel, parameter, given);
    }
}

using Regions = std::vector<std::pair<uint64_t, uint64_t>>;

py::dict counters_of(const wb_counters &c) {
    py::dict all;
    all["gm_to_ub_bytes"] = c.gm_to_ub;
    all["ub_to_gm_bytes"] = c.ub_to_gm;
    all["vector_instructions"] = c.vector_instructions;
    all["vector_repeats"] = c.vector_repeats;
    all["scalar_reads"] = c.scalar_reads;
    all["scalar_writes"] = c.scalar_writes;
    all["flags"] = c.flags;
    all["barriers"] = c.barriers;
    all["queue_operations"] = c.queue_operations;
    all["copies"] = c.copies;
    return all;
}

py::dict launch(const std::string &name, uint32_t blocks, uint64_t stream, const py::sequence &args,
                uint32_t threads, const std::optional<std::vector<uint32_t>> &block_ids,
                uint32_t checks, uint32_t switches, uint64_t perturb,
                const std::optional<Regions> &regions) {
    const wb_kernel &kernel = find(name);
    if (args.size() != kernel.n_parameters) {
        throw py::type_error(name + " takes " + std::to_string(kernel.n_parameters) +
                             " arguments; got " + std::to_string(args.size()));
    }
    std::vector<uint64_t> slots;
    for (uint32_t i = 0; i < kernel.n_parameters; ++i) {
        slots.push_back(pack(kernel, kernel.parameters[i], args[i]));
    }
    wb_launch request{};
    request.blocks = blocks;
    request.threads = threads;
    request.stream = reinterpret_cast<void *>(stream);
    request.checks = checks;
    request.switches = switches;
    request.perturb = perturb;
    if (block_ids) {
        request.block_ids = block_ids->data();
        request.n_block_ids = static_cast<uint32_t>(block_ids->size());
    }
    std::vector<wb_region> memory;
    if (regions) {
        for (const auto &region : *regions) {
            memory.push_back({region.first, region.second});
        }
        memory.reserve(1);  // not null, though it be empty
        request.regions = memory.data();
        request.n_regions = static_cast<uint32_t>(memory.size());
    }
    wb_report report{};
    if (!block_ids || !block_ids->empty()) {  // an empty list runs nothing
        py::gil_scoped_release nogil;
        kernel.launch(&request, slots.data(), &report);
    }
    py::dict result;
    result["ub_bytes"] = report.ub_high_water;
    py::list used;
    for (unsigned op = 0; op < 8 * 64; ++op) {
        if ((report.used[op / 64] >> op % 64 & 1) != 0) {
            used.append(op);
        }
    }
    result["used"] = used;
    if ((checks & 16u) != 0) {
        result["counters"] = counters_of(report.counters);
        py::list lines;
        for (uint32_t i = 0; i < report.n_lines; ++i) {
            const wb_line &line = report.lines[i];
            lines.append(py::make_tuple(line.file, line.line, counters_of(line.counters)));
        }
        result["lines"] = lines;
    }
    std::free(report.lines);
    if (report.kind[0] != 0) {
        py::dict fault;
        fault["kind"] = report.kind;
        fault["code"] = report.code;
        fault["instruction"] = report.instruction;
        fault["tensor"] = report.tensor;
        fault["file"] = report.file;
        fault["line"] = report.line;
        fault["block"] = report.block;
        fault["message"] = report.message;
        fault["mend"] = report.mend;
        fault["device"] = report.device;
        result["fault"] = fault;
    }
    return result;
}

py::dict kernels() {
    const wb_table *table = wb_kernel_table();
    py::dict all;
    for (uint32_t i = 0; i < table->n_kernels; ++i) {
        const wb_kernel &kernel = table->kernels[i];
        py::list parameters;
        for (uint32_t j = 0; j < kernel.n_parameters; ++j) {
            const wb_parameter &p = kernel.parameters[j];
            parameters.append(py::make_tuple(p.name, p.type, std::string(1, p.kind)));
        }
        all[kernel.name] = parameters;
    }
    return all;
}

py::dict constants() {
    const wb_table *table = wb_kernel_table();
    py::dict all;
    for (uint32_t i = 0; i < table->n_constants; ++i) {
        all[table->constants[i].name] = table->constants[i].value;
    }
    return all;
}

}  // namespace

PYBIND11_MODULE(_C_npu, m) {
    m.doc() = "Ascend C kernels, launched by name.";
    m.attr("backend") = wb_kernel_table()->backend;
    m.attr("arch") = wb_kernel_table()->arch;
    const char *manifest = wb_kernel_table()->manifest;
    m.attr("manifest") = manifest == nullptr ? py::object(py::none()) : py::str(manifest);
    m.def("kernels", &kernels, "{kernel: [(parameter, C++ type, kind)]}; kind is p, i, u, f or b.");
    m.def("constants", &constants, "Build-time constants as the compiler saw them.");
    m.def("launch", &launch, py::arg("name"), py::arg("blocks"), py::arg("stream"), py::arg("args"),
          py::arg("threads") = 0, py::arg("block_ids") = py::none(), py::arg("checks") = 0,
          py::arg("switches") = 0, py::arg("perturb") = 0, py::arg("regions") = py::none(),
          "Launch a kernel. Addresses are integers; the caller keeps the memory alive. Returns "
          "{'ub_bytes': …, 'used': numbers of instructions}, with counters 'counters' and 'lines', "
          "and, if the twin found one, 'fault'.");
}
