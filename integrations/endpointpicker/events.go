package endpointpicker

import "bytes"

// events counts the events of a server-sent event stream that carry data, however the
// stream is cut into pieces. Comments, by which servers keep a connection alive, and the
// closing [DONE] do not count. It keeps the beginning of the line it is in, no more, so
// the length of lines does not matter.
type events struct {
	line [len("data: [DONE]")]byte
	have int  // bytes of line
	long bool // the line is longer than that
	data bool // the event has a line of data
	any  bool // data has come, or begun to
}

var dataField = []byte("data:")

// count returns how many events that carry data ended in the piece.
func (e *events) count(piece []byte) (ended int64) {
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
		text, found := bytes.CutPrefix(e.line[:e.have], dataField)
		e.any = e.any || found
		if end < 0 {
			return ended
		}
		switch {
		case found:
			e.data = e.data || e.long || string(bytes.TrimSpace(text)) != "[DONE]"
		case len(bytes.TrimSuffix(e.line[:e.have], []byte("\r"))) == 0 && e.data:
			ended++
			e.data = false
		}
		e.have, e.long = 0, false
		piece = piece[end+1:]
	}
	return ended
}
