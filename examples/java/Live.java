import com.lightstreamer.client.ClientListener;
import com.lightstreamer.client.ItemUpdate;
import com.lightstreamer.client.LightstreamerClient;
import com.lightstreamer.client.Subscription;
import com.lightstreamer.client.SubscriptionListener;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * Prints the newest record of some keys of a Kafka topic as it changes.
 *
 * <p>Usage: java -cp 'lib/*' Live.java [SERVER [KEY...]]
 */
public final class Live {
  private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

  public static void main(String[] args) throws InterruptedException {
    String server = args.length > 0 ? args[0] : "http://localhost:8080";
    List<String> keys = List.of("Apple", "Banana", "Orange", "Grape", "Kiwi");
    if (args.length > 1) {
      keys = List.of(args).subList(1, args.length);
    }

    // The names of the adapter set, the data adapter, the items and the fields are those of
    // ../adapters.xml.
    LightstreamerClient client = new LightstreamerClient(server, "KafkaConnector");
    client.addListener(
        new ClientListener() {
          @Override
          public void onStatusChange(String status) {
            System.err.println(status);
            if (status.equals("DISCONNECTED:WILL-RETRY")) {
              System.err.println("no gateway answers at " + server + ", trying again");
            }
          }

          @Override
          public void onServerError(int code, String message) {
            System.err.println("refused: " + code + " " + message);
          }

          @Override
          public void onPropertyChange(String property) {}

          @Override
          public void onListenEnd() {}

          @Override
          public void onListenStart() {}
        });
    String[] items = keys.stream().map(key -> "ltest-[key=" + key + "]").toArray(String[]::new);
    String[] fields = {"key", "value", "partition", "offset"};
    // MERGE: what a record holds replaces what the one before held; a client that lags gets the
    // newest.
    Subscription subscription = new Subscription("MERGE", items, fields);
    subscription.setDataAdapter("QuickStart");
    subscription.addListener(new Records());
    client.subscribe(subscription);
    client.connect();
    Thread.currentThread().join();
  }

  private static final class Records implements SubscriptionListener {
    @Override
    public void onItemUpdate(ItemUpdate update) {
      String value = update.getValue("value");
      String shown = value == null ? "(null)" : value.substring(0, Math.min(60, value.length()));
      String place = update.getValue("partition") + "/" + update.getValue("offset");
      OUT.println(update.getItemName() + "  " + place + "  " + shown);
    }

    @Override
    public void onSubscriptionError(int code, String message) {
      System.err.println("not subscribed: " + code + " " + message);
    }

    @Override
    public void onClearSnapshot(String itemName, int itemPos) {}

    @Override
    public void onCommandSecondLevelItemLostUpdates(int lost, String key) {}

    @Override
    public void onCommandSecondLevelSubscriptionError(int code, String message, String key) {}

    @Override
    public void onEndOfSnapshot(String itemName, int itemPos) {}

    @Override
    public void onItemLostUpdates(String itemName, int itemPos, int lost) {}

    @Override
    public void onListenEnd() {}

    @Override
    public void onListenStart() {}

    @Override
    public void onSubscription() {}

    @Override
    public void onUnsubscription() {}

    @Override
    public void onRealMaxFrequency(String frequency) {}
  }
}
