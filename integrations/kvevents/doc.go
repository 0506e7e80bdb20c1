// Package kvevents tells a scheduler what the engines have in their caches, from the
// events that they publish themselves: vLLM, SGLang, TensorRT-LLM and simulators that
// follow them.
//
//	x, err := kvevents.New(kvevents.Config{BlockSize: 16})
//	blocks := x.Hashes(nil, kvevents.Namespace{}, tokens)
//	request := &sched.Request{
//		ID: "r1", ISL: int64(len(tokens)), Blocks: blocks, Overlaps: x.Overlaps(nil, blocks),
//	}
//
// An engine names a block by a hash of its own, made in a way that differs by engine,
// version, settings and even by process. This package never makes such a hash. It takes
// the tokens that come with a block and the name of the block before it, and makes a hash
// of its own, the same for all ranks; the engine's hash is a name within one life of one
// rank and nothing more.
//
// Events are hints. Whatever is in doubt (a block whose parent is not known, an event
// that contradicts itself, an engine that may have been started anew) makes for less
// overlap, never for one that is not there.
package kvevents
