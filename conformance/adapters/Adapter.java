import com.lightstreamer.adapters.remote.AccessException;
import com.lightstreamer.adapters.remote.ConflictingSessionException;
import com.lightstreamer.adapters.remote.CreditsException;
import com.lightstreamer.adapters.remote.ItemsException;
import com.lightstreamer.adapters.remote.MetadataControlListener;
import com.lightstreamer.adapters.remote.MetadataProviderAdapter;
import com.lightstreamer.adapters.remote.MetadataProviderServer;
import com.lightstreamer.adapters.remote.Mode;
import com.lightstreamer.adapters.remote.NotificationException;
import com.lightstreamer.adapters.remote.SchemaException;
import com.lightstreamer.adapters.remote.TableInfo;
import java.net.Socket;
import java.util.Map;

/**
 * Remote Metadata Adapter of the tests, with the unmodified SDK for Java.
 *
 * <p>Arguments: host, port, user, password. adapter.js and adapter.py decide the same. Messages
 * "end" and "unsubscribe" force ends, which only this SDK can.
 */
public final class Adapter extends MetadataProviderAdapter {
  private volatile MetadataControlListener listener;
  private volatile TableInfo table;

  /** Open session of the user who may have only one. */
  private String single;

  private static synchronized void log(String line) {
    System.out.println(line);
    System.out.flush();
  }

  @Override
  public void init(Map<String, String> parameters, String configFile) {
    log("init " + parameters.get("app:region"));
  }

  @Override
  public void setListener(MetadataControlListener listener) {
    this.listener = listener;
  }

  @Override
  public void notifyUser(String user, String password, Map<String, String> headers)
      throws AccessException, CreditsException {
    switch (user) {
      case "bad":
        throw new AccessException("no such user");
      case "blocked":
        throw new CreditsException(-7, "quota", "Daily limit, come back");
      case "slow":
        try {
          Thread.sleep(2_000);
        } catch (InterruptedException e) {
          throw new AccessException("interrupted");
        }
        break;
      default:
    }
  }

  @Override
  public double getAllowedMaxBandwidth(String user) {
    return 128.5;
  }

  @Override
  public boolean wantsTablesNotification(String user) {
    return true;
  }

  @Override
  public synchronized void notifyNewSession(
      String user, String session, Map<String, String> context)
      throws CreditsException, NotificationException {
    if ("single".equals(user)) {
      String other = single;
      single = other == null ? session : null;
      if (other != null) {
        throw new ConflictingSessionException(
            -9, "one session only", "Logged in elsewhere", other);
      }
    }
    if ("two".equals(user)) {
      throw new ConflictingSessionException(
          -9, "one session only", "Logged in elsewhere", "Sold1");
    }
  }

  @Override
  public String[] getItems(String user, String session, String group) throws ItemsException {
    switch (group) {
      case "unknown":
        throw new ItemsException("unknown list");
      case "mine":
        return new String[] {"orders-[account=" + user + "]", "quote-[symbol=é|+]"};
      case "own":
        return new String[] {"ltest-[key=" + user + "]"};
      default:
        return group.split(" ");
    }
  }

  @Override
  public String[] getSchema(String user, String session, String group, String schema)
      throws SchemaException {
    if (schema.equals("secret")) {
      throw new SchemaException("unknown field");
    }
    return schema.split(" ");
  }

  @Override
  public boolean modeMayBeAllowed(String item, Mode mode) {
    return mode == Mode.RAW || mode == Mode.MERGE;
  }

  @Override
  public boolean isModeAllowed(String user, String item, Mode mode) {
    return mode == Mode.MERGE || mode == Mode.DISTINCT;
  }

  @Override
  public int getDistinctSnapshotLength(String item) {
    return 20;
  }

  @Override
  public double getAllowedMaxItemFrequency(String user, String item) {
    return 2.5;
  }

  @Override
  public int getAllowedBufferSize(String user, String item) {
    return 7;
  }

  @Override
  public void notifyNewTables(String user, String session, TableInfo[] tables)
      throws CreditsException {
    if (tables[0].getId().equals("full")) {
      throw new CreditsException(-5, "too many", null);
    }
    table = tables[0];
  }

  @Override
  public void notifyTablesClose(String session, TableInfo[] tables) {
    log("NTC " + session + " " + tables[0].getWinIndex());
  }

  @Override
  public void notifySessionClose(String session) {
    log("NSC " + session);
  }

  @Override
  public void notifyUserMessage(String user, String session, String message)
      throws CreditsException, NotificationException {
    switch (message) {
      case "no":
        throw new CreditsException(-3, "refused", null);
      case "?":
        throw new NotificationException("bad");
      case "end":
        listener
            .forceSessionTermination(session, -12, "closed, by office")
            .whenComplete((done, error) -> log("ended " + (error == null)));
        break;
      case "unsubscribe":
        listener
            .forceUnsubscription(session, table)
            .whenComplete((done, error) -> log("unsubscribed " + done));
        break;
      case "fail":
        listener.failure(new Exception("database is gone"));
        break;
      default:
    }
  }

  public static void main(String[] args) throws Exception {
    Socket socket = new Socket(args[0], Integer.parseInt(args[1]));
    MetadataProviderServer server = new MetadataProviderServer();
    server.setAdapter(new Adapter());
    server.setRemoteUser(args[2]);
    server.setRemotePassword(args[3]);
    server.setRequestStream(socket.getInputStream());
    server.setReplyStream(socket.getOutputStream());
    server.start();
  }
}
