// Preloaded into a process that writes a record: keeps, in $POWER_LOSS, a copy of each file as it
// was when last synced. That folder is what a power cut leaves of the files, if the disk keeps what
// was synced and loses everything else. The shared memory of SQLite (-shm) is never synced, nor
// needed.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

std::string of(const char *folder, const std::string &name) {
    return folder + name.substr(name.rfind('/'));
}

// A folder was synced: names that are gone from it are gone for good. Until then they come back.
void forget(const char *folder, const std::string &synced) {
    DIR *kept = opendir(folder);
    if (!kept)
        return;
    while (dirent *entry = readdir(kept)) {
        std::string name = std::string("/") + entry->d_name;
        if (entry->d_name[0] != '.' && access((synced + name).c_str(), F_OK))
            unlink((folder + name).c_str());
    }
    closedir(kept);
}

void keep(int fd) {
    const char *folder = std::getenv("POWER_LOSS");
    if (!folder)
        return;
    std::string link = "/proc/self/fd/" + std::to_string(fd), name(4096, 0);
    ssize_t size = readlink(link.c_str(), &name[0], name.size());
    struct stat info;
    if (size <= 0 || fstat(fd, &info))
        return;
    name.resize(static_cast<size_t>(size));
    if (S_ISDIR(info.st_mode))
        return forget(folder, name);
    std::string target = of(folder, name), half = target + ".half";
    // Read through the descriptor itself: to open and close the file would drop the locks on it.
    int out = open(half.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (out < 0)
        std::abort();
    char block[1 << 16];
    off_t at = 0;
    for (ssize_t got; (got = pread(fd, block, sizeof block, at)) > 0; at += got)
        if (write(out, block, static_cast<size_t>(got)) != got)
            std::abort();
    close(out);
    if (std::rename(half.c_str(), target.c_str()))
        std::abort();
}

using Sync = int (*)(int);

int synced(const char *function, int fd) {
    static_assert(sizeof(Sync) == sizeof(void *), "");
    void *found = dlsym(RTLD_NEXT, function);
    Sync real;
    std::memcpy(&real, &found, sizeof real);
    int result = real(fd);
    if (result == 0)
        keep(fd);
    return result;
}

}  // namespace

extern "C" int fsync(int fd) {
    return synced("fsync", fd);
}
extern "C" int fdatasync(int fd) {
    return synced("fdatasync", fd);
}
