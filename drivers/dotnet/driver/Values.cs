using System;
using System.Buffers.Binary;
using System.Text.Json.Nodes;

namespace Weir.Driver;

/// <summary>Keys and values of records.</summary>
internal static class Values
{
    /// <summary>The key of a primer.</summary>
    public const long Primer = -1;
    public static readonly byte[] PrimerValue = { 0 };

    /// <summary>The output of SplitMix64, little endian.</summary>
    public static byte[] Make(int length, ulong seed)
    {
        var value = new byte[(length + 7) / 8 * 8];
        for (int at = 0; at < length; at += 8)
        {
            seed += 0x9e3779b97f4a7c15;
            ulong word = seed;
            word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
            word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
            BinaryPrimitives.WriteUInt64LittleEndian(value.AsSpan(at), word ^ (word >> 31));
        }
        return value.AsSpan(0, length).ToArray();
    }

    public static byte[] Key(long number)
    {
        var key = new byte[8];
        BinaryPrimitives.WriteInt64BigEndian(key, number);
        return key;
    }

    /// <summary>
    /// Returns the number of a key; a key without a number gives a value that matches none.
    /// </summary>
    public static long Number(byte[]? key) => key is { Length: 8 } ? BinaryPrimitives.ReadInt64BigEndian(key) : long.MinValue;
}

/// <summary>
/// A distribution of microseconds: exact below 1,000, three significant decimal digits above.
/// </summary>
internal sealed class Distribution
{
    private readonly long[] counts = new long[1000 + 900 * 13];
    private long sum;
    private long least = long.MaxValue;
    private long most;

    public long Count { get; private set; }

    public void Record(long nanos)
    {
        long value = Math.Max(0, nanos / 1000);
        counts[Place(value)]++;
        Count++;
        sum += value;
        least = Math.Min(least, value);
        most = Math.Max(most, value);
    }

    /// <summary>Half a unit rounds up; 9,995 is the first of the next decade.</summary>
    private static long Place(long value)
    {
        if (value < 1000) return value;
        long unit = 10;
        long first = 1000;
        while (value / unit >= 1000)
        {
            unit *= 10;
            first += 900;
        }
        return first + (value + unit / 2) / unit - 100;
    }

    private static long ValueAt(long place)
    {
        if (place < 1000) return place;
        long value = 100 + (place - 1000) % 900;
        for (long decade = (place - 1000) / 900; decade >= 0; decade--) value *= 10;
        return value;
    }

    public JsonObject Json()
    {
        var pairs = new JsonArray();
        for (long place = 0; place < counts.Length; place++)
        {
            if (counts[place] > 0) pairs.Add(new JsonArray { ValueAt(place), counts[place] });
        }
        return new JsonObject
        {
            ["count"] = Count, ["sum_us"] = sum, ["min_us"] = Count == 0 ? 0 : least, ["max_us"] = most, ["pairs"] = pairs,
        };
    }
}
