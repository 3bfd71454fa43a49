import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import com.sun.net.httpserver.HttpsConfigurator;
import com.sun.net.httpserver.HttpsServer;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.MessageDigest;
import java.security.PrivateKey;
import java.security.Signature;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.Executors;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;

/**
 * Token endpoint of a lab: client credentials (RFC 6749, section 4.4), tokens signed with RS256.
 *
 * <p>The only argument is a properties file. The query of the endpoint changes tokens for tests:
 * {@code lifetime} in seconds (negative: already expired), {@code audience}, and {@code key=other}
 * for a signature by a key that is not in the key set.
 */
public final class Tokens {
    private static final int BODY_MAX = 16 << 10;

    private final Properties config = new Properties();
    private final PrivateKey key;
    private final PrivateKey otherKey;
    private final byte[] keySet;

    public static void main(String[] args) throws Exception {
        new Tokens(Path.of(args[0])).serve();
    }

    private Tokens(Path file) throws Exception {
        try (InputStream input = Files.newInputStream(file)) {
            config.load(input);
        }
        key = privateKey(path("key"));
        otherKey = privateKey(path("other.key"));
        keySet = Files.readAllBytes(path("jwks"));
    }

    private void serve() throws Exception {
        InetAddress host = InetAddress.getByName(config.getProperty("host"));
        HttpServer plain = HttpServer.create(new InetSocketAddress(host, number("port")), 0);
        HttpsServer secured = HttpsServer.create(new InetSocketAddress(host, number("tls.port")), 0);
        secured.setHttpsConfigurator(new HttpsConfigurator(tls()));
        for (HttpServer server : new HttpServer[] {plain, secured}) {
            server.createContext("/token", this::token);
            server.createContext("/jwks", exchange -> respond(exchange, 200, keySet));
            server.createContext("/.well-known/openid-configuration", this::discovery);
            // A client that sends nothing must not block the others.
            server.setExecutor(Executors.newCachedThreadPool());
            server.start();
        }
    }

    private void token(HttpExchange exchange) throws IOException {
        try {
            byte[] body = exchange.getRequestBody().readNBytes(BODY_MAX);
            Map<String, String> form = fields(new String(body, StandardCharsets.UTF_8));
            if (!"POST".equals(exchange.getRequestMethod())) {
                respond(exchange, 405, "{\"error\":\"invalid_request\"}");
            } else if (!isClient(exchange.getRequestHeaders().getFirst("Authorization"), form)) {
                respond(exchange, 401, "{\"error\":\"invalid_client\",\"error_description\":\"wrong client or secret\"}");
            } else if (!"client_credentials".equals(form.get("grant_type"))) {
                respond(exchange, 400, "{\"error\":\"unsupported_grant_type\"}");
            } else {
                Map<String, String> query = fields(exchange.getRequestURI().getRawQuery());
                long lifetime = Long.parseLong(query.getOrDefault("lifetime", config.getProperty("lifetime")));
                String token = sign(claims(form.get("scope"), lifetime, query.get("audience")), query.get("key"));
                String json = "{\"access_token\":\"%s\",\"token_type\":\"Bearer\",\"expires_in\":%d}";
                respond(exchange, 200, json.formatted(token, lifetime));
            }
        } catch (RuntimeException | java.security.GeneralSecurityException error) {
            respond(exchange, 400, "{\"error\":\"invalid_request\"}");
        }
    }

    private boolean isClient(String authorization, Map<String, String> form) {
        String id = form.get("client_id");
        String secret = form.get("client_secret");
        if (authorization != null && authorization.startsWith("Basic ")) {
            byte[] pair = Base64.getDecoder().decode(authorization.substring(6).trim());
            String[] parts = new String(pair, StandardCharsets.UTF_8).split(":", 2);
            id = decode(parts[0]);
            secret = parts.length == 2 ? decode(parts[1]) : null;
        }
        return same(id, config.getProperty("client")) && same(secret, config.getProperty("secret"));
    }

    private static boolean same(String given, String expected) {
        byte[] bytes = given == null ? new byte[0] : given.getBytes(StandardCharsets.UTF_8);
        return MessageDigest.isEqual(bytes, expected.getBytes(StandardCharsets.UTF_8));
    }

    private String claims(String scope, long lifetime, String audience) {
        long now = System.currentTimeMillis() / 1000;
        String json = """
            {"iss":"%s","sub":"%s","aud":"%s","azp":"%s","jti":"%s","iat":%d,"exp":%d,"scope":"%s"}""";
        String client = config.getProperty("client");
        String safeScope = scope == null ? "" : scope.replaceAll("[^A-Za-z0-9:/._ -]", "");
        String safeAudience = audience == null ? config.getProperty("audience") : audience.replaceAll("[^A-Za-z0-9]", "");
        // An expired token has to be issued before its end.
        long issued = Math.min(now, now + lifetime - 1);
        return json.formatted(
            config.getProperty("issuer"), client, safeAudience, client, UUID.randomUUID(), issued, now + lifetime, safeScope);
    }

    private String sign(String claims, String keyName) throws java.security.GeneralSecurityException {
        String header = "{\"alg\":\"RS256\",\"typ\":\"JWT\",\"kid\":\"lab\"}";
        String text = base64(header.getBytes(StandardCharsets.UTF_8)) + "." + base64(claims.getBytes(StandardCharsets.UTF_8));
        Signature signature = Signature.getInstance("SHA256withRSA");
        signature.initSign("other".equals(keyName) ? otherKey : key);
        signature.update(text.getBytes(StandardCharsets.US_ASCII));
        return text + "." + base64(signature.sign());
    }

    private void discovery(HttpExchange exchange) throws IOException {
        String issuer = config.getProperty("issuer");
        String json = """
            {"issuer":"%s","token_endpoint":"%s/token","jwks_uri":"%s/jwks"}""";
        respond(exchange, 200, json.formatted(issuer, issuer, issuer));
    }

    private static void respond(HttpExchange exchange, int status, String json) throws IOException {
        respond(exchange, status, json.getBytes(StandardCharsets.UTF_8));
    }

    private static void respond(HttpExchange exchange, int status, byte[] json) throws IOException {
        try (exchange) {
            exchange.getResponseHeaders().set("Content-Type", "application/json");
            exchange.getResponseHeaders().set("Cache-Control", "no-store");
            exchange.sendResponseHeaders(status, json.length);
            exchange.getResponseBody().write(json);
        }
    }

    private SSLContext tls() throws Exception {
        char[] password = config.getProperty("store.password").toCharArray();
        KeyStore store = KeyStore.getInstance("PKCS12");
        try (InputStream input = Files.newInputStream(path("store"))) {
            store.load(input, password);
        }
        KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(store, password);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), null, null);
        return context;
    }

    private static PrivateKey privateKey(Path pem) throws Exception {
        String base64 = Files.readString(pem).replaceAll("-----[A-Z ]+-----", "").replaceAll("\\s", "");
        var spec = new PKCS8EncodedKeySpec(Base64.getDecoder().decode(base64));
        return KeyFactory.getInstance("RSA").generatePrivate(spec);
    }

    private static Map<String, String> fields(String encoded) {
        Map<String, String> fields = new HashMap<>();
        for (String pair : encoded == null ? new String[0] : encoded.split("&")) {
            String[] parts = pair.split("=", 2);
            fields.put(decode(parts[0]), parts.length == 2 ? decode(parts[1]) : "");
        }
        return fields;
    }

    private static String decode(String text) {
        return URLDecoder.decode(text, StandardCharsets.UTF_8);
    }

    private static String base64(byte[] bytes) {
        return Base64.getUrlEncoder().withoutPadding().encodeToString(bytes);
    }

    private Path path(String name) {
        return Path.of(config.getProperty(name));
    }

    private int number(String name) {
        return Integer.parseInt(config.getProperty(name));
    }
}
