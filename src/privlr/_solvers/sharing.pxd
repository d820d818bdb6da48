from libc.stdint cimport int64_t

from privlr._solvers.solve cimport privlr_design


cdef extern from "sharing.h" nogil:
    int PRIVLR_SHARING_ROWS

    ctypedef struct privlr_columns:
        privlr_design X
        double over_relaxation
        double clip
        double *share
        double *anchor
        double *message
        double *target
        double *moment

    ctypedef struct privlr_labels:
        const double *y
        double *center
        double *z
        double rho
        double over_relaxation
        double averaged
        double loss
        double gap
        double change
        double total
        double level
        double dual

    void privlr_columns_product(const privlr_columns *p, int64_t first, int64_t count,
                                const double *w, double *out)
    void privlr_columns_slope(const privlr_columns *p, int64_t first, int64_t count,
                              const double *w, double *slope)
    void privlr_columns_absorb(privlr_columns *p, int64_t first, int64_t count,
                               const double *message)
    void privlr_labels_step(privlr_labels *l, int64_t first, int64_t count, const double *total,
                            double *message)
    void privlr_sharing_exchange(int64_t m, privlr_columns *const *parties,
                                 const double *const *w, privlr_labels *labels, int64_t n,
                                 int64_t block)
