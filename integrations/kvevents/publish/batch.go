package publish

import (
	"bytes"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// Event is a change of an engine's cache.
type Event interface{ fields() map[string]any }

// Stored tells that blocks were computed, one following the other.
type Stored struct {
	// Hashes are the engine's names for them, Parent points to that of the block before, or
	// is nil if they begin a prompt.
	Hashes []uint64
	Parent *uint64
	// Tokens are those of all blocks, BlockSize of each.
	Tokens    []uint32
	BlockSize int64
	// Adapter and Salt are those of the request, empty for none.
	Adapter, Salt string
}

func (s Stored) fields() map[string]any {
	m := map[string]any{
		"type": "BlockStored", "block_hashes": s.Hashes, "parent_block_hash": s.Parent, "token_ids": s.Tokens,
		"block_size": s.BlockSize, "lora_id": nil, "medium": "GPU", "lora_name": nil,
	}
	if s.Adapter != "" {
		m["lora_name"] = s.Adapter
	}
	if s.Adapter != "" || s.Salt != "" {
		keys := make([][]string, len(s.Hashes)) // the salt is a key of a prompt's first block only
		for i := range keys {
			if s.Adapter != "" {
				keys[i] = append(keys[i], s.Adapter)
			}
			if s.Salt != "" && i == 0 && s.Parent == nil {
				keys[i] = append(keys[i], s.Salt)
			}
		}
		m["extra_keys"] = keys
	}
	return m
}

// Removed tells that blocks were dropped.
type Removed struct{ Hashes []uint64 }

func (r Removed) fields() map[string]any {
	return map[string]any{"type": "BlockRemoved", "block_hashes": r.Hashes, "medium": "GPU"}
}

// Cleared tells that all blocks were dropped.
type Cleared struct{}

func (Cleared) fields() map[string]any { return map[string]any{"type": "AllBlocksCleared"} }

// Batch returns the payload of a message: the changes of a rank's cache in one step.
func Batch(at time.Time, rank uint32, events ...Event) []byte {
	all := make([]map[string]any, len(events))
	for i, e := range events {
		all[i] = e.fields()
	}
	var out bytes.Buffer
	encoder := msgpack.NewEncoder(&out)
	encoder.UseCompactInts(true)
	_ = encoder.Encode([]any{float64(at.UnixNano()) / 1e9, all, rank}) // fails for no value of these types
	return out.Bytes()
}
