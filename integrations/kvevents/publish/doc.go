// Package publish is the engine's side of KV-cache events, for simulated engines and for
// tests: a PUB and a ROUTER socket as vLLM has them, and batches in its form of 2026. It
// can be told to fail as engines and networks do.
//
//	p := publish.New(10_000)
//	events, replay, err := p.Listen("127.0.0.1:0", "127.0.0.1:0")
//	p.Publish(publish.Batch(time.Now(), 0, publish.Stored{Hashes: names, Tokens: tokens, BlockSize: 16}))
//	p.Restart() // the engine was started anew: numbers begin again, and nothing is repeated
//	p.Close()
package publish
