// An unmodified Lightstreamer client for Java SE, controlled by a JSON argument and JSON lines on stdin.
// Prints its events as JSON lines. Protocol: docs/conformance.md. The debug log goes to stderr. Starting a
// JVM is slow, so one process serves several clients, one after the other.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.lightstreamer.client.ClientListener;
import com.lightstreamer.client.ClientMessageListener;
import com.lightstreamer.client.ConnectionOptions;
import com.lightstreamer.client.ItemUpdate;
import com.lightstreamer.client.LightstreamerClient;
import com.lightstreamer.client.Subscription;
import com.lightstreamer.client.SubscriptionListener;
import com.lightstreamer.log.ConsoleLogLevel;
import com.lightstreamer.log.ConsoleLoggerProvider;
import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.net.HttpCookie;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.net.ssl.TrustManagerFactory;

final class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();
    /** The SDK logs to standard output, which is for events only. */
    private static final PrintStream EVENTS = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private final JsonNode config;
    private final LightstreamerClient client;
    private final List<Subscription> subscriptions = new ArrayList<>();
    /** Guarded by EVENTS. */
    private boolean closed;

    private Driver(JsonNode config) throws Exception {
        this.config = config;
        client = new LightstreamerClient(config.get("server").asText(), config.get("adapter_set").asText());
        if (config.hasNonNull("transport")) option("ForcedTransport", config.get("transport"));
        if (config.hasNonNull("keepalive_ms")) option("KeepaliveInterval", config.get("keepalive_ms"));
        JsonNode options = config.path("options");
        for (Iterator<String> names = options.fieldNames(); names.hasNext(); ) {
            String name = names.next();
            option(name, options.get(name));
        }
        if (config.hasNonNull("user")) client.connectionDetails.setUser(config.get("user").asText());
        if (config.hasNonNull("password")) client.connectionDetails.setPassword(config.get("password").asText());
        if (config.hasNonNull("cookie")) {
            List<HttpCookie> cookies = HttpCookie.parse("Set-Cookie: " + config.get("cookie").asText() + "; Path=/");
            LightstreamerClient.addCookies(URI.create(config.get("server").asText()), cookies);
        }
        client.addListener(new Connection());
        // Subscribed before the connection: the SDK then sends them in one batch.
        for (JsonNode wanted : config.get("subscriptions")) subscribe(wanted);
        client.connect();
    }

    /** Calls the setter of this name. */
    private void option(String name, JsonNode value) throws Exception {
        for (Method method : ConnectionOptions.class.getMethods()) {
            if (method.getName().equals("set" + name) && method.getParameterCount() == 1) {
                method.invoke(client.connectionOptions, JSON.convertValue(value, method.getParameterTypes()[0]));
                return;
            }
        }
        throw new IllegalArgumentException("unknown option " + name);
    }

    private void subscribe(JsonNode wanted) {
        String[] fields = strings(wanted.get("fields"));
        Subscription subscription = new Subscription(wanted.get("mode").asText(), strings(wanted.get("items")), fields);
        subscription.setDataAdapter(wanted.get("data_adapter").asText());
        subscription.setRequestedSnapshot(wanted.path("snapshot").textValue());
        if (wanted.hasNonNull("max_frequency")) subscription.setRequestedMaxFrequency(wanted.get("max_frequency").asText());
        if (wanted.hasNonNull("buffer")) subscription.setRequestedBufferSize(wanted.get("buffer").asText());
        if (wanted.hasNonNull("second_level")) {
            JsonNode second = wanted.get("second_level");
            subscription.setCommandSecondLevelFields(strings(second.get("fields")));
            subscription.setCommandSecondLevelDataAdapter(second.get("data_adapter").asText());
        }
        subscription.addListener(new Updates(subscriptions.size(), fields));
        subscriptions.add(subscription);
        client.subscribe(subscription);
    }

    private void obey(JsonNode command) throws Exception {
        int sub = command.path("sub").asInt(0);
        switch (command.get("cmd").asText()) {
            case "subscribe" -> subscribe(command.get("subscription"));
            case "unsubscribe" -> client.unsubscribe(subscriptions.get(sub));
            case "frequency" -> subscriptions.get(sub).setRequestedMaxFrequency(command.get("value").asText());
            case "option" -> option(command.get("name").asText(), command.get("value"));
            case "password" -> client.connectionDetails.setPassword(command.get("value").asText());
            case "message" -> {
                String text = command.get("text").asText();
                ClientMessageListener listener = command.path("listens").asBoolean() ? new Outcome() : null;
                client.sendMessage(text, command.path("sequence").textValue(), -1, listener, false);
            }
            case "disconnect" -> client.disconnect();
            default -> throw new IllegalArgumentException("unknown command " + command);
        }
    }

    private static String[] strings(JsonNode array) {
        return JSON.convertValue(array, String[].class);
    }

    /** Ends the client and prints its last event. */
    private void close() {
        // Other clients must not have the cookie.
        if (config.hasNonNull("cookie")) System.exit(0);
        synchronized (EVENTS) {
            emit("closed");
            closed = true;
        }
        client.disconnect();
    }

    /** Prints an event; names and values alternate. */
    private void emit(String event, Object... more) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("event", event);
        for (int i = 0; i < more.length; i += 2) line.put((String) more[i], more[i + 1]);
        try {
            String text = JSON.writeValueAsString(line);
            synchronized (EVENTS) {
                if (!closed) EVENTS.println(text);
            }
        } catch (com.fasterxml.jackson.core.JsonProcessingException e) {
            throw new IllegalStateException(e);
        }
    }

    private void detail(String event, Object... more) {
        if (config.path("details").asBoolean()) emit(event, more);
    }

    private final class Connection implements ClientListener {
        @Override public void onStatusChange(String status) {
            emit("status", "status", status);
        }

        @Override public void onServerError(int code, String message) {
            emit("server_error", "code", code, "message", message);
        }

        @Override public void onPropertyChange(String name) {
            if (name.equals("realMaxBandwidth")) {
                detail("real_max_bandwidth", "value", client.connectionOptions.getRealMaxBandwidth());
            }
        }

        @Override public void onListenStart() {}

        @Override public void onListenEnd() {}
    }

    private final class Updates implements SubscriptionListener {
        private final int sub;
        private final String[] fields;

        private Updates(int sub, String[] fields) {
            this.sub = sub;
            this.fields = fields;
        }

        @Override public void onSubscription() {
            emit("subscribed", "sub", sub);
        }

        @Override public void onUnsubscription() {
            emit("unsubscribed", "sub", sub);
        }

        @Override public void onSubscriptionError(int code, String message) {
            emit("subscription_error", "sub", sub, "code", code, "message", message);
        }

        @Override public void onItemLostUpdates(String item, int pos, int n) {
            emit("lost", "sub", sub, "item", item, "pos", pos, "n", n);
        }

        @Override public void onEndOfSnapshot(String item, int pos) {
            detail("end_of_snapshot", "sub", sub, "item", item, "pos", pos);
        }

        @Override public void onClearSnapshot(String item, int pos) {
            detail("clear_snapshot", "sub", sub, "item", item, "pos", pos);
        }

        @Override public void onRealMaxFrequency(String value) {
            detail("real_max_frequency", "sub", sub, "value", value);
        }

        @Override public void onItemUpdate(ItemUpdate update) {
            Instant now = Instant.now();
            long atUs = now.getEpochSecond() * 1_000_000 + now.getNano() / 1000;
            List<String> changed = new ArrayList<>();
            List<String> patched = new ArrayList<>();
            for (String field : fields) {
                if (update.isValueChanged(field)) changed.add(field);
                if (update.getValueAsJSONPatchIfAvailable(field) != null) patched.add(field);
            }
            emit("update", "sub", sub, "at_us", atUs, "item", update.getItemName(), "pos", update.getItemPos(),
                "values", update.getFields(), "changed", changed, "snapshot", update.isSnapshot(),
                "patched", patched);
        }

        @Override public void onCommandSecondLevelItemLostUpdates(int n, String key) {}

        @Override public void onCommandSecondLevelSubscriptionError(int code, String message, String key) {}

        @Override public void onListenStart() {}

        @Override public void onListenEnd() {}
    }

    private final class Outcome implements ClientMessageListener {
        @Override public void onAbort(String text, boolean sentOnNetwork) {
            emit("message", "text", text, "outcome", "aborted");
        }

        @Override public void onDeny(String text, int code, String message) {
            emit("message", "text", text, "outcome", "denied", "code", code, "message", message);
        }

        @Override public void onDiscarded(String text) {
            emit("message", "text", text, "outcome", "discarded");
        }

        @Override public void onError(String text) {
            emit("message", "text", text, "outcome", "error");
        }

        @Override public void onProcessed(String text, String response) {
            emit("message", "text", text, "outcome", "processed");
        }
    }

    /** Trusts the CA certificate in this file. */
    private static void trust(String file) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (InputStream pem = Files.newInputStream(Path.of(file))) {
            store.setCertificateEntry("authority", CertificateFactory.getInstance("X.509").generateCertificate(pem));
        }
        TrustManagerFactory factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        factory.init(store);
        LightstreamerClient.setTrustManagerFactory(factory);
    }

    public static void main(String[] args) throws Exception {
        System.setOut(System.err);
        if (System.getenv("WEIR_AUTHORITY") != null) trust(System.getenv("WEIR_AUTHORITY"));
        JsonNode config = JSON.readTree(args[0]);
        if (config.path("debug").asBoolean()) {
            LightstreamerClient.setLoggerProvider(new ConsoleLoggerProvider(ConsoleLogLevel.DEBUG));
        }
        Driver driver = new Driver(config);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            JsonNode command = JSON.readTree(line);
            switch (command.get("cmd").asText()) {
                case "close" -> driver.close();
                case "open" -> driver = new Driver(command.get("config"));
                default -> driver.obey(command);
            }
        }
        // The SDK's own threads would keep the process alive.
        System.exit(0);
    }
}
