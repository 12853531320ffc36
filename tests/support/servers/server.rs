// A thread for each connection, on the standard library alone.
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

fn main() {
    let port = std::env::args().nth(1).unwrap();
    for stream in TcpListener::bind(format!("0.0.0.0:{port}")).unwrap().incoming() {
        let mut stream = stream.unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(stream.try_clone().unwrap()).lines() {
                let Ok(line) = line else { return };
                if line.is_empty() && stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n").is_err() {
                    return;
                }
            }
        });
    }
}
