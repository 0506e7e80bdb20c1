// Package policy says which queue class a request belongs to and what that
// class allows: when a rank is too busy for it, when a request must wait, in
// which order requests wait, and how many may.
//
// Floor 2, and pure: it takes no lock, starts no goroutine, reads no clock and
// draws no random number. It imports nothing of the project. A [Profile] never
// changes once it is built, so any number of goroutines may use it.
//
// A profile is a matrix of classes plus explicit classes:
//
//	uncached tokens      0 ........ 4096 .........
//	bucket               short      long
//	family interactive   int-short  int-long
//	family batch         bat-short  bat-long
//	explicit             probe
//
// A request asks for a family, or for an explicit class by name; its uncached
// tokens choose the column. Profiles are read from YAML with the keys of
// NVIDIA Dynamo's router policy file:
//
//	default_policy_family: interactive
//	uncached_isl_buckets:
//	  - {min_tokens: 0, bucket: short}
//	  - {min_tokens: 4096, bucket: long}
//	policy_classes:
//	  - name: int-short
//	    policy_family: interactive
//	    cache_bucket: short
//	    queue_policy: fcfs                 # fcfs (default), lcfs, wspt
//	    quantum: 4096                      # tokens per round, at least 1
//	    prefill_busy_threshold_frac: 1.0   # times max_batched_tokens
//	    request_queue_limit_per_worker: 64
//	  - {name: int-long, policy_family: interactive, cache_bucket: long, quantum: 1024}
//	  - {name: probe, quantum: 1}          # explicit: neither family nor bucket
//	models:
//	  some/model: {…}                      # a whole profile, used for that model
//
// The other keys of a class that Dynamo has too are prefill_busy_threshold (tokens),
// busy_worker_ratio (in (0,1]), raw_isl_token_queue_limit_per_worker and
// cached_token_queue_limit_per_worker. These are of this library alone:
//
//	max_requests_per_rank: 8       # a rank with so many requests is busy; at least 1
//	kv_busy_threshold_frac: 0.9    # so is one with more active blocks than 0.9 of its KV blocks
//	choose_from: idle              # never choose a rank that is busy for the class; default: eligible
//	guard_after: 5                 # seconds until the prefill threshold binds other classes
//	endpoint_wait: 30              # seconds that a request waits while it has no rank
//	max_queue_age: 60              # seconds until a request goes ahead of the class's order
//
// busy_worker_ratio and choose_from: idle need a threshold: of prefill tokens, requests
// or blocks. guard_after needs one of prefill tokens, and no busy_worker_ratio. Seconds
// are rounded to nanoseconds.
//
// A null value counts as absent. The sections worker_selection, router and
// request_classifier, whatever is in them, and the class keys stages and admission, which
// steer other parts of Dynamo, are accepted. [File.Warnings] says what of them is not
// taken over, and what to set instead; a file may have these sections and no profile.
// Everything else that is unknown, repeated or out of range is refused, and
// all faults are reported at once as [ConfigErrors].
package policy
