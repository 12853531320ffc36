use std::hint::black_box;

use axum::{routing::get, Router};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let port: u16 = std::env::args().nth(1).unwrap().parse().unwrap();
    let turns: u64 = std::env::var("TURNS").map_or(0, |turns| turns.parse().unwrap());
    let app = Router::new().route(
        "/",
        get(move || async move {
            for turn in 0..turns {
                black_box(turn);
            }
            "hello\n"
        }),
    );
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    axum::serve(listener, app).await.unwrap();
}
