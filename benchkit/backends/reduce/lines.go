package main

import (
	"bytes"
	"io"
)

// bufferSize is how much is read at once, and the longest line that is handed over in one piece: no tool's row comes near.
const bufferSize = 256 << 10

// eachLine hands over the lines of a stream, without their ends. Of a line longer than bufferSize, and of a last line
// that is not ended, it hands over the pieces with ended false. The slice is only lent.
func eachLine(in io.Reader, take func(line []byte, ended bool)) (ending, error) {
	buffer := make([]byte, bufferSize)
	kept, cut := 0, false // bytes of a line that is not whole yet; whether its beginning was handed over already
	for {
		n, err := in.Read(buffer[kept:])
		data, searched := buffer[:kept+n], kept
		for {
			length := bytes.IndexByte(data[searched:], '\n')
			if length < 0 {
				break
			}
			take(data[:searched+length], true)
			data, searched, cut = data[searched+length+1:], 0, false
		}
		if len(data) == bufferSize {
			take(data, false)
			data, cut = nil, true
		}
		if len(data) < kept+n { // else it stands where it should
			copy(buffer, data)
		}
		kept = len(data)
		if err == nil {
			continue
		}
		if kept > 0 {
			take(buffer[:kept], false)
			cut = true
		}
		if err == io.EOF {
			err = nil
		}
		if cut || err != nil {
			return endedCut, err
		}
		return endedWhole, nil
	}
}
