from libc.stdint cimport int64_t, uint8_t, uint64_t


cdef extern from "status.h" nogil:
    ctypedef enum privlr_status:
        PRIVLR_OK
        PRIVLR_EXTREME
        PRIVLR_NO_ENTROPY


cdef extern from "entropy.h" nogil:
    enum:
        PRIVLR_KEY_BYTES

    ctypedef struct privlr_bits:
        uint64_t block

    privlr_status privlr_bits_open(privlr_bits *bits, const uint8_t *key)
    void privlr_bits_fill(privlr_bits *bits, size_t n, uint64_t *out)
    void privlr_memory_wipe(void *memory, size_t n)


cdef extern from "noise.h" nogil:
    const int64_t PRIVLR_LAPLACE_SCALE_MAX

    privlr_status privlr_noise_sphere(const uint8_t *key, size_t d, double rate, double *out,
                                      double *radius_out)
    privlr_status privlr_noise_discrete_laplace(const uint8_t *key, size_t n, int64_t scale,
                                                int64_t *out)
    privlr_status privlr_noise_rounded_gaussian(const uint8_t *key, size_t n, double sigma,
                                                const double *mean, double grid, double *out)
