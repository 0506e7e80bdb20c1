package publish

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
)

// The flags of a frame of ZMTP 3.
const (
	more    = 1
	long    = 2
	command = 4
)

// Greet is the greeting of ZMTP 3 from the side that was connected to.
func Greet(w io.Writer, r *bufio.Reader, kind string) error {
	greeting := make([]byte, 64)
	if _, err := io.ReadFull(r, greeting); err != nil {
		return err
	}
	greeting[0], greeting[9], greeting[10], greeting[11] = 0xff, 0x7f, 3, 1
	if _, err := w.Write(greeting); err != nil {
		return err
	}
	flags, ready, err := ReadFrame(r)
	if err != nil {
		return err
	}
	if flags != command || !bytes.HasPrefix(ready, []byte("\x05READY")) {
		return errors.New("publish: the peer does not greet by READY")
	}
	body := append([]byte("\x05READY\x0bSocket-Type\x00\x00\x00"), byte(len(kind)))
	_, err = w.Write(AppendFrame(nil, command, append(body, kind...)))
	return err
}

// mostBytes bounds a frame: followers send short ones.
const mostBytes = 1 << 20

// ReadFrame reads a frame.
func ReadFrame(r *bufio.Reader) (flags byte, body []byte, err error) {
	if flags, err = r.ReadByte(); err != nil {
		return 0, nil, err
	}
	n := uint64(0)
	if flags&long != 0 {
		err = binary.Read(r, binary.BigEndian, &n)
	} else {
		var short byte
		short, err = r.ReadByte()
		n = uint64(short)
	}
	if err == nil && n > mostBytes {
		err = errors.New("publish: a frame is longer than 1 MiB")
	}
	if err != nil {
		return 0, nil, err
	}
	body = make([]byte, n)
	_, err = io.ReadFull(r, body)
	return flags &^ long, body, err
}

// AppendFrame appends a frame with these flags.
func AppendFrame(to []byte, flags byte, body []byte) []byte {
	if len(body) > 255 {
		to = binary.BigEndian.AppendUint64(append(to, flags|long), uint64(len(body)))
	} else {
		to = append(to, flags, byte(len(body)))
	}
	return append(to, body...)
}
