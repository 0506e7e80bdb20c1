// Package capacity carries capacity hints from the caller that frees capacity to the
// holder of the scheduler's turn.
//
// It is floor 0 of the library. Ring is a bounded lock-free queue on xsync's
// MPMCQueueOf, wrapped so that nothing else knows it; its blocking calls are
// never used. The size of 256 with an overflow flag follows NVIDIA Dynamo's
// router.
package capacity
