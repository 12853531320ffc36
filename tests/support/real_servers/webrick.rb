require "webrick"

turns = Integer(ENV.fetch("TURNS", "0"))
log = WEBrick::Log.new($stderr, WEBrick::Log::WARN)
server = WEBrick::HTTPServer.new(BindAddress: "127.0.0.1", Port: Integer(ARGV.fetch(0)), Logger: log, AccessLog: [])
server.mount_proc("/") do |_request, response|
  turns.times {}
  response.content_type = "text/plain"
  response.body = "hello\n"
end
trap("TERM") { server.shutdown }
server.start
