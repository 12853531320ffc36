package main

import (
	"bytes"
	"io"
)

// bufferSize is the size of a read, and of the longest line that is passed on in one piece; rows of tools are far shorter.
const bufferSize = 256 << 10

// eachLine calls take for each line of a stream, without the line end. A line longer than bufferSize, and a last line
// without end, are passed on in pieces with ended false. The slice is only valid during the call.
func eachLine(in io.Reader, take func(line []byte, ended bool)) (ending, error) {
	buffer := make([]byte, bufferSize)
	kept, cut := 0, false // bytes of an incomplete line; true if its beginning was passed on already
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
		if len(data) < kept+n { // else it is at the start already
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
