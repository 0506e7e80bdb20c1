package trace

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxLine bounds the memory that one line may take.
const maxLine = 16 << 20

var errTooLong = fmt.Errorf("line is longer than %d bytes", maxLine)

// lines cuts a stream into numbered lines of bounded length.
type lines struct {
	src    *bufio.Reader
	number int // of the line last returned
	long   []byte
}

func newLines(src io.Reader) *lines {
	l := &lines{src: bufio.NewReaderSize(src, 64<<10)}
	if mark, _ := l.src.Peek(3); bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		_, _ = l.src.Discard(len(mark)) // it has just been peeked at
	}
	return l
}

// next returns the next line, its end cut off or not, good until the next call.
// errTooLong has passed over the line.
func (l *lines) next() ([]byte, error) {
	line, err := l.src.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return l.finish(line, err)
	}
	l.long = l.long[:0]
	tooLong := false
	for errors.Is(err, bufio.ErrBufferFull) {
		if tooLong = tooLong || len(l.long)+len(line) > maxLine; !tooLong {
			l.long = append(l.long, line...)
		}
		line, err = l.src.ReadSlice('\n')
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if tooLong || len(l.long)+len(line) > maxLine {
		l.number++
		return nil, errTooLong
	}
	l.long = append(l.long, line...)
	return l.finish(l.long, err)
}

func (l *lines) finish(line []byte, err error) ([]byte, error) {
	if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
		return nil, err
	}
	l.number++
	return line, nil
}
