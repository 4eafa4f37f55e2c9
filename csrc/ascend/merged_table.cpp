// The kernel table of a module built ahead of time: the tables of all its kernel files in one.
// Plain C++; the list of the files and the manifest are written by the build.
#include <string>
#include <vector>

#include "kernel_table.h"

namespace {

struct Merged {
    std::vector<wb_kernel> kernels;
    std::vector<std::string> names;
    std::vector<wb_constant> constants;
    wb_table table{};

    Merged() {
        for (uint32_t i = 0; i < wb_n_parts; ++i) {
            const wb_table *part = wb_parts[i].table();
            kernels.insert(kernels.end(), part->kernels, part->kernels + part->n_kernels);
            for (uint32_t j = 0; j < part->n_constants; ++j) {
                // Two files may have a constant of one name, with different values.
                names.push_back(wb_parts[i].name + std::string(".") + part->constants[j].name);
                constants.push_back({nullptr, part->constants[j].value});
            }
            table.backend = part->backend;  // one build, one backend, one architecture
            table.arch = part->arch;
        }
        for (size_t i = 0; i < names.size(); ++i) {  // now that no name moves any more
            constants[i].name = names[i].c_str();
        }
        table.kernels = kernels.data();
        table.n_kernels = static_cast<uint32_t>(kernels.size());
        table.constants = constants.data();
        table.n_constants = static_cast<uint32_t>(constants.size());
        table.manifest = wb_manifest;
    }
};

}  // namespace

extern "C" const wb_table *wb_kernel_table(void) {
    static const Merged merged;
    return &merged.table;
}
