// Where the threads of a call begin to run.
//
// A new thread may be put on the processor of the one that made it, which is busy with its own
// share, and moved to a free one only milliseconds later: as long as a whole call takes. So each is
// moved to another processor at once. It is held nowhere: after that it may run wherever the
// process may.
#ifndef ORDERS_PLACED_H
#define ORDERS_PLACED_H

#ifdef __linux__
#include <pthread.h>
#include <sched.h>
#endif

#include <thread>

namespace order {

class Placement {
  public:
#ifdef __linux__
    Placement()
        : known_(sched_getaffinity(0, sizeof(allowed_), &allowed_) == 0), last_(sched_getcpu()) {}

    // Move a thread to the next processor of those that this one may use.
    void spread(std::thread *thread) {
        if (!known_ || last_ < 0 || last_ >= CPU_SETSIZE) {
            return;
        }
        do {
            last_ = (last_ + 1) % CPU_SETSIZE;
        } while (!CPU_ISSET(last_, &allowed_));
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(last_, &one);
        const pthread_t handle = thread->native_handle();
        if (pthread_setaffinity_np(handle, sizeof(one), &one) == 0) {
            pthread_setaffinity_np(handle, sizeof(allowed_), &allowed_);
        }
    }

  private:
    cpu_set_t allowed_;  // a machine with more than CPU_SETSIZE processors does not say it in one
    bool known_;
    int last_;
#else
    void spread(std::thread *) {}
#endif
};

}  // namespace order

#endif
