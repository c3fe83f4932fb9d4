// A stand-in for NCCL and for the part of the CUDA driver that engines call, with their prototypes.
// Device memory is memory of the host. A group has its ranks in threads of one process. Work
// submitted to a stream makes progress when the stream is queried.
//
// It checks what the real libraries rely on: the id arrives as it was made, each end of a group is
// used by one thread, and that thread has a context.
//
// Rank 0 fails to submit a message of FAILS bytes. One of HANGS bytes never arrives, and the group
// reports an error.

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID = 4, USAGE = 5, REMOTE = 6, RANKS = 64, FAILS = 66666, HANGS = 77777 };

typedef struct { char internal[128]; } ncclUniqueId;
typedef struct stream *CUstream;
typedef struct end *ncclComm_t;

// box is one message between two ranks.
struct box {
	const void *data;
	size_t bytes;
	int full;
	unsigned long taken; // messages so far
};

struct world {
	ncclUniqueId id;
	int size, arrived;
	struct box boxes[RANKS][RANKS];
	struct world *next;
};

struct end {
	struct world *world;
	int rank, failed, aborted;
	pthread_t thread;
};

struct op {
	ncclComm_t comm;
	void *data;
	size_t bytes;
	int peer, sends, posted;
	unsigned long taken;
	struct op *next;
};

struct stream { struct op *ops; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t joined = PTHREAD_COND_INITIALIZER;
static struct world *worlds;
static unsigned char ids;
static __thread void *context;
static __thread int grouped;
static __thread struct op *group;
static __thread CUstream group_stream;

int cuDeviceGet(int *device, int ordinal) { *device = ordinal + 100; return 0; }

int cuDevicePrimaryCtxRetain(void **ctx, int device) {
	if (device < 100) return 101;
	*ctx = (void *)(size_t)(0x1000 + device);
	return 0;
}

int cuDevicePrimaryCtxRelease_v2(int device) { return device < 100 ? 101 : 0; }

int cuCtxSetCurrent(void *ctx) { context = ctx; return 0; }

int cuStreamCreate(CUstream *s, unsigned flags) {
	if (!context || flags != 1) return 201;
	*s = calloc(1, sizeof **s);
	return 0;
}

int cuStreamDestroy_v2(CUstream s) {
	for (struct op *o = s->ops, *next; o; o = next) { next = o->next; free(o); }
	free(s);
	return 0;
}

// step makes progress with an operation and returns 1 when it is done.
static int step(struct op *o) {
	struct world *w = o->comm->world;
	if (o->comm->aborted) return 1;
	if (o->bytes == HANGS) { o->comm->failed = 1; return 0; }
	struct box *b = o->sends ? &w->boxes[o->comm->rank][o->peer] : &w->boxes[o->peer][o->comm->rank];
	if (o->sends) {
		if (o->posted) return b->taken != o->taken;
		if (b->full) return 0;
		*b = (struct box){o->data, o->bytes, 1, b->taken};
		o->posted = 1, o->taken = b->taken;
		return 0;
	}
	if (!b->full) return 0;
	if (b->bytes != o->bytes) { o->comm->failed = 1; return 0; }
	memcpy(o->data, b->data, b->bytes);
	b->full = 0, b->taken++;
	return 1;
}

int cuStreamQuery(CUstream s) {
	pthread_mutex_lock(&lock);
	char waits[2][RANKS] = {{0}}; // pairs whose next message has to wait for an earlier one
	for (struct op **at = &s->ops; *at;) {
		struct op *o = *at;
		if (!waits[o->sends][o->peer] && step(o)) { *at = o->next; free(o); continue; }
		waits[o->sends][o->peer] = 1;
		at = &o->next;
	}
	int code = s->ops ? 600 : 0;
	pthread_mutex_unlock(&lock);
	return code;
}

const char *ncclGetErrorString(int result) { return result == REMOTE ? "a peer is gone" : "stub error"; }

int ncclGetUniqueId(ncclUniqueId *id) {
	pthread_mutex_lock(&lock);
	ids++;
	for (int i = 0; i < 128; i++) id->internal[i] = (char)(i * 7 + ids);
	pthread_mutex_unlock(&lock);
	return SUCCESS;
}

int ncclCommInitRank(ncclComm_t *comm, int size, ncclUniqueId id, int rank) {
	for (int i = 0; i < 128; i++)
		if (id.internal[i] != (char)(i * 7 + id.internal[0])) return INVALID;
	if (!context || size < 1 || size > RANKS || rank < 0 || rank >= size) return INVALID;
	pthread_mutex_lock(&lock);
	struct world *w = worlds;
	while (w && memcmp(&w->id, &id, sizeof id)) w = w->next;
	if (!w) {
		w = calloc(1, sizeof *w);
		w->id = id, w->size = size, w->next = worlds, worlds = w;
	}
	w->arrived++;
	pthread_cond_broadcast(&joined);
	while (w->arrived < size) pthread_cond_wait(&joined, &lock);
	pthread_mutex_unlock(&lock);
	*comm = calloc(1, sizeof **comm);
	**comm = (struct end){w, rank, 0, 0, pthread_self()};
	return SUCCESS;
}

static int usable(ncclComm_t c) { return context && pthread_equal(c->thread, pthread_self()); }

int ncclCommDestroy(ncclComm_t c) { if (!usable(c)) return USAGE; free(c); return SUCCESS; }

// ncclCommAbort drops the work of an end, which touches its memory no more.
int ncclCommAbort(ncclComm_t c) {
	if (!usable(c)) return USAGE;
	pthread_mutex_lock(&lock);
	c->aborted = 1;
	for (int peer = 0; peer < c->world->size; peer++) c->world->boxes[c->rank][peer].full = 0;
	pthread_mutex_unlock(&lock);
	return SUCCESS;
}

int ncclCommGetAsyncError(ncclComm_t c, int *state) { *state = c->failed ? REMOTE : SUCCESS; return SUCCESS; }

int ncclGroupStart(void) { grouped++; return SUCCESS; }

static int submit(int sends, void *data, size_t bytes, int type, int peer, ncclComm_t c, CUstream s) {
	if (!usable(c) || !grouped || type != 1 || peer < 0 || peer >= c->world->size || (bytes == FAILS && !c->rank)) return INVALID;
	struct op *o = calloc(1, sizeof *o);
	*o = (struct op){c, data, bytes, peer, sends, 0, 0, NULL};
	struct op **at = &group;
	while (*at) at = &(*at)->next;
	*at = o;
	group_stream = s;
	return SUCCESS;
}

int ncclSend(const void *data, size_t n, int type, int peer, ncclComm_t c, CUstream s) {
	return submit(1, (void *)data, n, type, peer, c, s);
}

int ncclRecv(void *data, size_t n, int type, int peer, ncclComm_t c, CUstream s) {
	return submit(0, data, n, type, peer, c, s);
}

int ncclGroupEnd(void) {
	if (!grouped--) return USAGE;
	if (!group) return SUCCESS;
	struct op **at = &group_stream->ops;
	while (*at) at = &(*at)->next;
	*at = group;
	group = NULL;
	return SUCCESS;
}
