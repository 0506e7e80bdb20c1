package kvevents

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/dchest/siphash"
	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

var (
	errType  = errors.New("kvevents: value of an unexpected type")
	errRange = errors.New("kvevents: value out of range")
)

// reader reads values of known types from a payload. It asks msgpack for one value at
// a time and never for a tree of them: that would allocate for each, and recurse as
// deep as the sender likes. Lists are never longer than the bytes that are left.
type reader struct {
	src   *bytes.Reader
	dec   *msgpack.Decoder
	text  []byte            // the last text or bytes
	names map[string]string // names seen before, so that each is allocated once
}

// Names are few: adapters and salts. What is more or longer is not kept.
const (
	mostNames   = 1024
	longestName = 256
)

func (r *reader) reset(payload []byte) {
	if r.src == nil {
		r.src = new(bytes.Reader)
		r.dec = msgpack.NewDecoder(r.src)
		r.names = make(map[string]string)
	}
	r.src.Reset(payload)
}

func (r *reader) left() int { return r.src.Len() }

func (r *reader) offset() int64 { return r.src.Size() - int64(r.src.Len()) }

func (r *reader) seek(offset int64) {
	_, _ = r.src.Seek(offset, io.SeekStart) // an offset from before is within
}

// bounded holds a length against the bytes that are left.
func (r *reader) bounded(n int, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	if n > r.left() {
		return 0, io.ErrUnexpectedEOF
	}
	return n, nil
}

// array returns the length of an array, -1 for nil.
func (r *reader) array() (int, error) {
	c, err := r.dec.PeekCode()
	if err != nil {
		return 0, err
	}
	if c != msgpcode.Nil && !isArray(c) {
		return 0, errType
	}
	return r.bounded(r.dec.DecodeArrayLen())
}

// mapping returns the number of pairs of a map.
func (r *reader) mapping() (int, error) { return r.bounded(r.dec.DecodeMapLen()) }

// blob reads text or bytes, valid until the next.
func (r *reader) blob() ([]byte, error) {
	c, err := r.dec.PeekCode()
	if err != nil {
		return nil, err
	}
	if !isText(c) {
		return nil, errType
	}
	n, err := r.bounded(r.dec.DecodeBytesLen())
	if err != nil {
		return nil, err
	}
	if cap(r.text) < n {
		r.text = make([]byte, n)
	}
	r.text = r.text[:n]
	return r.text, r.dec.ReadFull(r.text)
}

// name reads a text that is kept; nil is empty.
func (r *reader) name() (string, error) {
	if null, err := r.null(); null || err != nil {
		return "", err
	}
	text, err := r.blob()
	if err != nil {
		return "", err
	}
	if known, ok := r.names[string(text)]; ok {
		return known, nil
	}
	name := string(text)
	if len(name) <= longestName {
		if len(r.names) >= mostNames {
			clear(r.names)
		}
		r.names[name] = name
	}
	return name, nil
}

// null skips a nil, if that is what comes.
func (r *reader) null() (bool, error) {
	c, err := r.dec.PeekCode()
	if err != nil || c != msgpcode.Nil {
		return false, err
	}
	return true, r.dec.DecodeNil()
}

// number reads a number from 0 to 2³²-1.
func (r *reader) number() (uint32, error) {
	n, err := r.dec.DecodeUint64()
	if err == nil && n > math.MaxUint32 {
		err = errRange
	}
	return uint32(n), err
}

// hash reads the name that an engine gives a block: a number, signed or not, or bytes.
// It means something within one life of one rank only, so what matters is that
// different names stay different: bytes become a number by a hash of theirs.
func (r *reader) hash() (uint64, error) {
	c, err := r.dec.PeekCode()
	if err != nil {
		return 0, err
	}
	if isText(c) {
		text, err := r.blob()
		return siphash.Hash(0, 0, text), err
	}
	if c == msgpcode.Nil {
		return 0, errType
	}
	return r.dec.DecodeUint64()
}

// skip passes over the next value and all that it holds. It counts what is to come
// instead of recursing.
func (r *reader) skip() error {
	for todo := int64(1); todo > 0; todo-- {
		c, err := r.dec.PeekCode()
		if err != nil {
			return err
		}
		var n int
		switch {
		case isArray(c):
			n, err = r.bounded(r.dec.DecodeArrayLen())
			todo += int64(n)
		case msgpcode.IsFixedMap(c) || c == msgpcode.Map16 || c == msgpcode.Map32:
			n, err = r.mapping()
			todo += 2 * int64(n)
		case isText(c):
			if n, err = r.bounded(r.dec.DecodeBytesLen()); err == nil {
				r.seek(r.offset() + int64(n))
			}
		case msgpcode.IsExt(c):
			if _, n, err = r.dec.DecodeExtHeader(); err == nil {
				if n, err = r.bounded(n, nil); err == nil {
					r.seek(r.offset() + int64(n))
				}
			}
		default:
			err = r.dec.Skip()
		}
		if err != nil {
			return fmt.Errorf("kvevents: skip: %w", err)
		}
	}
	return nil
}

func isArray(c byte) bool {
	return msgpcode.IsFixedArray(c) || c == msgpcode.Array16 || c == msgpcode.Array32
}

func isText(c byte) bool { return msgpcode.IsString(c) || msgpcode.IsBin(c) }
