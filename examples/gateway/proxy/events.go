package proxy

import "bytes"

// events counts the events of a server-sent event stream that carry data, however
// the stream is cut into pieces. Comments, by which servers keep a connection
// alive, and the closing [DONE] do not count. It keeps the beginning of the line
// it is in, no more, so the length of lines does not matter.
type events struct {
	line [len("data: [DONE]")]byte
	have int  // bytes of line
	long bool // the line is longer than that
	done bool // [DONE] has come
}

// count returns how many events' data lines ended in the piece.
func (e *events) count(piece []byte) int64 {
	var ended int64
	for len(piece) > 0 {
		end := bytes.IndexByte(piece, '\n')
		rest := piece
		if end >= 0 {
			rest = piece[:end]
		}
		n := copy(e.line[e.have:], rest)
		e.have += n
		// A carriage return may stand before the end of a line.
		if len(bytes.TrimSuffix(rest[n:], []byte("\r"))) > 0 {
			e.long = true
		}
		if end < 0 {
			break
		}
		if e.data() {
			ended++
		}
		e.have, e.long = 0, false
		piece = piece[end+1:]
	}
	return ended
}

// data tells whether the line carries data, and notes if it is the closing one.
func (e *events) data() bool {
	text, found := bytes.CutPrefix(e.line[:e.have], []byte("data:"))
	if !found {
		return false
	}
	if !e.long && string(bytes.TrimSpace(text)) == "[DONE]" {
		e.done = true
		return false
	}
	return true
}

// ended tells, when nothing more will come, whether [DONE] has.
func (e *events) ended() bool {
	e.data() // the last line may lack its end
	return e.done
}
