turns = Integer(ENV.fetch("TURNS", "0"))

run lambda { |_environment|
  turns.times {}
  [200, { "content-type" => "text/plain" }, ["hello\n"]]
}
