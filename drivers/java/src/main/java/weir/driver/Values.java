package weir.driver;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;

/** Keys and values of records. */
final class Values {
    /** The key of a primer. */
    static final long PRIMER = -1;
    static final byte[] PRIMER_VALUE = {0};
    private static final VarHandle BIG_ENDIAN = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.BIG_ENDIAN);

    private Values() {}

    /** The output of SplitMix64, little endian. */
    static byte[] make(int length, long seed) {
        byte[] value = new byte[length];
        long state = seed;
        for (int at = 0; at < length; at += 8) {
            state += 0x9e3779b97f4a7c15L;
            long word = state;
            word = (word ^ word >>> 30) * 0xbf58476d1ce4e5b9L;
            word = (word ^ word >>> 27) * 0x94d049bb133111ebL;
            word ^= word >>> 31;
            for (int i = at; i < Math.min(at + 8, length); i++, word >>>= 8) value[i] = (byte) word;
        }
        return value;
    }

    static byte[] key(long number) {
        byte[] key = new byte[8];
        BIG_ENDIAN.set(key, 0, number);
        return key;
    }

    /** The keys 0, 1, 2, ... */
    static byte[][] keys(int count) {
        byte[][] keys = new byte[count][];
        for (int i = 0; i < count; i++) keys[i] = key(i);
        return keys;
    }

    /** Returns the number of a key; a key without a number gives a value that matches none. */
    static long number(byte[] key) {
        return key == null || key.length != 8 ? Long.MIN_VALUE : (long) BIG_ENDIAN.get(key, 0);
    }
}
