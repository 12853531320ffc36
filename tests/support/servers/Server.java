import com.sun.net.httpserver.HttpServer;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.concurrent.Executors;

/** A server of the JDK (`jdk`), or a thread for each connection on bare sockets (`raw`). */
class Server {
    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[1]);
        if (arguments[0].equals("raw")) {
            try (ServerSocket listening = new ServerSocket(port)) {
                while (true) {
                    Socket socket = listening.accept();
                    new Thread(() -> answer(socket)).start();
                }
            }
        }
        HttpServer server = HttpServer.create(new InetSocketAddress(port), 0);
        server.createContext("/", exchange -> {
            exchange.sendResponseHeaders(200, 6);
            exchange.getResponseBody().write("hello\n".getBytes());
            exchange.close();
        });
        server.setExecutor(Executors.newCachedThreadPool());
        server.start();
    }

    private static void answer(Socket socket) {
        try (socket) {
            BufferedReader lines = new BufferedReader(new InputStreamReader(socket.getInputStream()));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                if (line.isEmpty()) {
                    socket.getOutputStream().write("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n".getBytes());
                }
            }
        } catch (java.io.IOException lost) {
            // the connection has ended
        }
    }
}
