/* Captured graphs: what streams, events and models know of each other. */
#ifndef GRAPH_QUANT_CAPTURE_H
#define GRAPH_QUANT_CAPTURE_H

#include "host_npu.h"

#include <pthread.h>
#include <stdbool.h>

enum {
    ACL_CAPTURE_DEPENDENCY = 107024,
    ACL_STREAM_UNJOINED = 107025,
    ACL_STREAM_CAPTURED = 107027,
    ACL_NO_STREAM_RESOURCE = 207008,
    ACL_EVENT_CAPTURED = 107028,
    ACL_STREAM_NOT_CAPTURED = 107029,
    ACL_CAPTURE_MODE_NOT_SUPPORTED = 107030,
    ACL_CAPTURE_CONFLICT = 107032,
    ACL_TASK_GROUP_STATUS = 107033,
    ACL_CAPTURE_UNMATCHED = 107036,
    ACL_MODEL_RUNNING = 107037,
    ACL_CAPTURE_WRONG_THREAD = 107038,
    ACL_STREAM_SYNC_TIMEOUT = 507046,
    ACL_CAPTURE_INVALIDATED = 507903,
};

enum { CAPTURE_NONE = 0, CAPTURE_ACTIVE = 1, CAPTURE_INVALIDATED = 2 }; /* aclmdlRICaptureStatus */
enum { MODE_GLOBAL = 0, MODE_THREAD_LOCAL = 1, MODE_RELAXED = 2 };      /* aclmdlRICaptureMode */
enum { CUBE_CORES = 0, VECTOR_CORES = 1, LIMITS = 2 };                  /* aclrtDevResLimitType */

/* Streams of one capture; a device has a similar limit. */
enum { MAX_STREAMS = 64 };

/* How many streams live captured graphs hold, and how many of a device's stream ids they and created streams can hold. */
extern uint32_t host_captured_streams[2];
extern uint32_t host_created_streams; /* those that exist, with torch_npu's own */
acl_error may_take_stream(const char *function);
acl_error aclrtGetDeviceCount(uint32_t *count);

/* How many tasks of each stream come before a point in a capture (a vector clock). */
struct progress {
    uint32_t of[MAX_STREAMS];
};

struct stream {
    int32_t id;
    struct model *model;       /* captured into this one, or NULL */
    uint32_t slot;             /* which of the model's streams this is */
    struct progress progress;  /* what comes before the next task of this stream */
    struct task_group *open;   /* tasks go into this group, or NULL */
    struct task_group *update; /* tasks replace those of this group, or NULL */
    uint32_t updated;          /* how many have been replaced so far */
    struct run *waiting;       /* a replay that waits for a value, or NULL */
    uint32_t limit[LIMITS];    /* cores this stream may use; 0: all of the device */
    uint64_t attribute[5];     /* aclrtStreamAttr: stored and returned */
};

struct event {
    int64_t recorded_ns; /* 0 until recorded */
    uint32_t model_id;   /* recorded in the capture of this model; 0: outside of captures */
    struct progress progress;
};

enum task_kind { KERNEL, COPY, SET, CALL, CONDITION, VALUE_WAIT, VALUE_WRITE, EVENT_RECORD, EVENT_WAIT };

/* A value in memory that says whether a branch of a graph is taken. */
struct condition {
    uint64_t value;
    uint64_t at_launch; /* what the value is when a replay begins ... */
    bool assigned;      /* ... if it is to be set then */
    struct condition *next;
};

struct task {
    enum task_kind kind;
    int32_t stream_id;
    uint32_t kernel; /* KERNEL: its index among the kernels of the model */
    char *name;      /* KERNEL: the operator */
    char *detail;    /* KERNEL: its tensors, as members of a JSON object */
    void *target;    /* memory, event, condition or argument of the call */
    const void *source;
    void (*call)(void *);
    struct model *branch; /* CONDITION: the graph that is replayed if it holds */
    size_t size;
    uint64_t value;
    uint32_t flag;
};

struct model {
    uint32_t id;
    int status;
    int mode;
    bool running;
    bool transient; /* what a stream does after a value that it waits for outside of a replay */
    pthread_t thread; /* which captures it, later which replays it */
    struct stream *origin;
    struct stream *streams[MAX_STREAMS];
    uint32_t stream_count;
    uint32_t count[MAX_STREAMS]; /* tasks of each stream */
    struct task *tasks;
    size_t task_count, task_room;
    uint32_t kernel_count;
    struct task_group *groups;
    struct condition *conditions;
    struct model *parent; /* the graph that this one is a branch of, or NULL */
    struct stream outer;  /* the origin's state before: a branch may be captured on a stream of the outer graph */
    struct model *next;
    char invalidated_by[256];
};

/* Kernels of a model that may be replaced, in place, between two replays. */
struct task_group {
    uint32_t first, count; /* among the kernels of the model */
    struct task_group *next;
};

/* A replay: it stops at a value that has not been written, and continues when it is. */
struct run {
    struct model *model;
    size_t next;
    struct stream *stream;
    struct run *outer;   /* what continues after this branch, or NULL */
    struct run *link;
};

extern pthread_mutex_t capture_lock; /* guards all of the above; never held while a kernel runs */
extern uint32_t host_recording[1];   /* streams that are captured, updated or waiting: 0 means plain eager work */

struct stream *stream_of(void *handle);

/* With the lock held; NULL if there is none (any more): */
struct model *model_of(const void *handle);
struct model *live_model(uint32_t id);
struct model *model_with(const struct task_group *group);
struct task *append_task(struct stream *stream, enum task_kind kind);
struct model *new_model(struct model *parent);
void free_model(struct model *model);
void begin_capture(struct stream *stream, struct model *model, int mode);
void invalidate(struct model *model, const char *why);

/* Call before a capture begins on a stream; it is a branch of `parent` if that is not NULL. */
acl_error may_begin(const struct stream *stream, const struct model *parent, int mode, const char *function);
/* Call before work on a stream: an error if the stream is waiting or updating, or its capture is invalid. */
acl_error may_launch(const struct stream *stream, const char *function);
/* Call before a call that blocks or reads: an error if a capture forbids it. */
acl_error may_wait(struct stream *stream, const char *function);
acl_error may_block(const char *function);

/* Append a task instead of executing it; true if the stream is captured, with the result in `status`. */
bool captured(void *stream, enum task_kind kind, const struct task *task, acl_error *status);

#endif
