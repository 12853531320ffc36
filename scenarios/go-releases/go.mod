module go-releases

go 1.16

require github.com/valyala/fasthttp v1.31.0
