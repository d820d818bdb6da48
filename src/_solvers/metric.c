#include "metric.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Parts of the sum over rows, each of which needs a matrix of its own. */
enum {
    PARTS_MAX = 4,
    PART_WIDTH_MAX = 256,
    SPARSE_WIDTH_MAX = 2048,
    DENSE_WIDTH_MAX = 8192, /* half a gigabyte, if the price is ever paid */
    SOFTMAX_SIZE_MAX = 512,
    ROWS_PER_COLUMN = 10,
    CACHED_ENTRIES = 1 << 20
};

int privlr_metric_is_affordable(const privlr_objective *f) {
    if (f->n_outputs > 1)
        return !f->X.index_bits && privlr_objective_size(f) <= SOFTMAX_SIZE_MAX;
    return privlr_design_width(&f->X) <= (f->X.index_bits ? SPARSE_WIDTH_MAX : DENSE_WIDTH_MAX);
}

int64_t privlr_metric_coarsest(const privlr_objective *f) {
    const int64_t every = f->X.n_rows / (ROWS_PER_COLUMN * privlr_design_width(&f->X));
    const int64_t blocks = f->X.n_rows / privlr_design_block(&f->X);
    return every < 1 ? 1 : every < blocks ? every : blocks < 1 ? 1 : blocks;
}

/* Measured, in passes over all rows. An element of a dense row meets `width` others at the
 * speed of matrix products, while a pass waits for the memory unless the rows fit in the
 * cache; the entries of a sparse row are paired one by one. */
double privlr_metric_cost(const privlr_objective *f, int64_t every) {
    const double entries = (double)f->X.n_entries * (double)f->n_outputs;
    const double width = (double)privlr_objective_size(f);
    const double factor = width * width * width;
    if (f->X.index_bits)
        return (entries / (double)f->X.n_rows / 4.0 + 1.0) / (double)every +
               factor / (300.0 * entries);
    if (privlr_objective_is_small(f))
        return (width / 10.0 + 1.0) / (double)every + factor / (48.0 * entries);
    const double memory = entries > CACHED_ENTRIES ? 0.5 : 1.0;
    return memory * ((width / 12.0 + 2.0) / (double)every + factor / (24.0 * entries));
}

privlr_status privlr_metric_init(privlr_metric *metric, const privlr_objective *f) {
    metric->width = privlr_objective_size(f);
    metric->every = 0;
    metric->factor = NULL;
    if (!privlr_metric_is_affordable(f))
        return PRIVLR_OK;
    metric->factor = malloc((size_t)(metric->width * metric->width) * sizeof(double));
    return metric->factor ? PRIVLR_OK : PRIVLR_NO_MEMORY;
}

void privlr_metric_free(privlr_metric *metric) {
    free(metric->factor);
    metric->factor = NULL;
}

typedef struct {
    const privlr_objective *f;
    const privlr_blas *blas;
    privlr_workspace *work;
    const double *w;
    int64_t every, blocks, parts;
    double unit; /* rows are divided by it, so that no square leaves the range of a float */
    int precise;
    double *hessians; /* parts x width^2 */
    int64_t member;   /* doubles that each member packs rows in; 0: no products by BLAS */
    double *packed;
    float *single;
} hessian_job;

static void add_products(const hessian_job *job, int64_t rows, double *packed, float *single,
                         int64_t part) {
    int n = (int)privlr_objective_size(job->f), k = (int)rows;
    const size_t size = (size_t)n * (size_t)n;
    if (job->precise) {
        double one = 1.0, *hessian = job->hessians + (size_t)part * size;
        job->blas->dsyrk("U", "N", &n, &k, &one, packed, &n, &one, hessian, &n);
    } else {
        float one = 1.0f, *hessian = (float *)(job->hessians + (size_t)part * size);
        for (int64_t i = 0; i < rows * n; i++)
            single[i] = (float)packed[i];
        job->blas->ssyrk("U", "N", &n, &k, &one, single, &n, &one, hessian, &n);
    }
}

/* The Hessian of one sample's softmax loss is the sum over outputs c of z z' with
 * z = sqrt(p_c) (e_c - p) x a, x being Kronecker's product. rows holds a, packed z. */
static void pack_softmax(const hessian_job *job, int64_t count, const double *p, const double *rows,
                         double *packed) {
    const int64_t block = privlr_design_block(&job->f->X), outputs = job->f->n_outputs;
    const int64_t width = privlr_design_width(&job->f->X);
    for (int64_t i = 0; i < count; i++) {
        double weight = 0.0;
        for (int64_t c = 0; c < outputs; c++)
            weight += p[c * block + i];
        for (int64_t c = 0; c < outputs; c++) {
            const double root = sqrt(p[c * block + i]) / job->unit;
            for (int64_t e = 0; e < outputs; e++, packed += width) {
                const double share = weight > 0.0 ? p[e * block + i] / weight : 0.0;
                const double factor = root * ((c == e) - share);
                for (int64_t j = 0; j < width; j++)
                    packed[j] = factor * rows[i * width + j];
            }
        }
    }
}

static void sum_part(void *context, int64_t part, int member) {
    const hessian_job *job = context;
    const privlr_objective *f = job->f;
    const int64_t block = privlr_design_block(&f->X), size = privlr_objective_size(f);
    double *raw = job->work->members + (size_t)member * job->work->member;
    double *scratch = raw + 2 * block * f->n_outputs;
    double *hessian = job->hessians + part * size * size;
    double *packed = job->packed + member * job->member;
    float *single = job->single + member * job->member;
    for (int64_t b = part * job->blocks / job->parts; b < (part + 1) * job->blocks / job->parts;
         b++) {
        const int64_t first = b * job->every * block;
        const int64_t count = first + block < f->X.n_rows ? block : f->X.n_rows - first;
        const privlr_view view = privlr_design_view(&f->X, first, count, scratch);
        double *curvature = privlr_objective_curvature(f, &view, job->w, raw);
        if (f->n_outputs > 1) {
            for (int64_t i = 0; i < count; i++)
                raw[i] = 1.0;
            privlr_design_pack(&f->X, first, count, raw, scratch);
            pack_softmax(job, count, curvature, scratch, packed);
            add_products(job, count * f->n_outputs, packed, single, part);
        } else if (view.layout == PRIVLR_CSR) {
            privlr_design_outer(&f->X, &view, curvature, hessian);
        } else {
            for (int64_t i = 0; i < count; i++)
                curvature[i] = sqrt(curvature[i]) / job->unit;
            privlr_design_pack(&f->X, first, count, curvature, packed);
            add_products(job, count, packed, single, part);
        }
    }
    if (job->member && !job->precise) {
        /* Widened from the end, in place. */
        for (int64_t k = size * size - 1; k >= 0; k--) {
            float h;
            memcpy(&h, (const char *)hessian + (size_t)k * sizeof h, sizeof h);
            hessian[k] = (double)h;
        }
    }
}

/* Factors hessian + ridge. Only rounding makes it indefinite: then the diagonal grows.
 * Returns 0 if that does not help, which means that entries overflowed. */
static int factorise(const privlr_metric *metric, const privlr_blas *blas, double ridge,
                     double scale, const double *hessian) {
    const int64_t n = metric->width;
    for (double shift = 0.0; shift < 1.0; shift = shift == 0.0 ? 1e-15 : 10.0 * shift) {
        int info = 0, order = (int)n;
        for (int64_t j = 0; j < n; j++) {
            for (int64_t i = 0; i <= j; i++)
                metric->factor[i + j * n] = scale * hessian[i + j * n];
            metric->factor[j + j * n] = (1.0 + shift) * metric->factor[j + j * n] + ridge;
        }
        blas->potrf("U", &order, metric->factor, &order, &info);
        if (info == 0 && isfinite(metric->factor[0]))
            return 1;
    }
    return 0;
}

void privlr_metric_adopt(privlr_metric *metric, const privlr_objective *f, const privlr_blas *blas,
                         const privlr_workspace *work, int64_t every) {
    metric->every = factorise(metric, blas, f->ridge, 1.0, work->hessian) ? every : 0;
}

privlr_status privlr_metric_update(privlr_metric *metric, const privlr_objective *f,
                                   const privlr_blas *blas, privlr_workspace *work, int64_t every,
                                   int precise, const double *w) {
    if (privlr_objective_is_small(f)) {
        double gradient[PRIVLR_NARROW];
        privlr_objective_evaluate(f, work, every, PRIVLR_WITH_HESSIAN, w, gradient);
        privlr_metric_adopt(metric, f, blas, work, every);
        return PRIVLR_OK;
    }
    const int64_t width = metric->width, block = privlr_design_block(&f->X);
    const int64_t all = (f->X.n_rows + block - 1) / block, blocks = (all + every - 1) / every;
    const int64_t parts = width > PART_WIDTH_MAX ? 1 : blocks < PARTS_MAX ? blocks : PARTS_MAX;
    const int64_t members = privlr_team_size(work->team);
    const int with_blas = f->n_outputs > 1 || !f->X.index_bits;
    const int64_t member = with_blas ? block * f->n_outputs * width : 0;
    const size_t hessians = (size_t)(parts * width * width);
    const size_t packed = (size_t)(members * member);
    double *memory = calloc(hessians + packed + (packed + 1) / 2, sizeof *memory);
    if (!memory)
        return PRIVLR_NO_MEMORY;
    const double mean_square = f->X.lengths->square_sum / (double)f->X.n_rows;
    hessian_job job = {
        .f = f,
        .blas = blas,
        .work = work,
        .w = w,
        .every = every,
        .blocks = blocks,
        .parts = parts,
        .unit = with_blas && mean_square > 0.0 ? sqrt(mean_square) : 1.0,
        .precise = precise,
        .hessians = memory,
        .member = member,
        .packed = memory + hessians,
        .single = (float *)(memory + hessians + packed),
    };
    privlr_team_run(work->team, sum_part, &job, parts);
    for (int64_t part = 1; part < parts; part++)
        for (int64_t k = 0; k < width * width; k++)
            memory[k] += memory[k + part * width * width];
    const int64_t last = (blocks - 1) * every * block;
    const int64_t rows =
        (blocks - 1) * block + (f->X.n_rows - last < block ? f->X.n_rows - last : block);
    const double scale = (double)f->X.n_rows / (double)rows * job.unit * job.unit;
    metric->every = factorise(metric, blas, f->ridge, scale, memory) ? every : 0;
    free(memory);
    return PRIVLR_OK;
}

void privlr_metric_solve(const privlr_metric *metric, const privlr_blas *blas, double *v) {
    /* LAPACK's potrs copies the whole factor for one vector, which takes three times as long. */
    int n = (int)metric->width, one = 1;
    blas->trsv("U", "T", "N", &n, metric->factor, &n, v, &one);
    blas->trsv("U", "N", "N", &n, metric->factor, &n, v, &one);
}
