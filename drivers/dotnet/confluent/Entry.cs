using System;

namespace Weir.Driver;

/// <summary>Driver of Confluent.Kafka.</summary>
internal static class Entry
{
    private static int Main() => Program.Run(Console.OpenStandardOutput(), () => new ConfluentLibrary());
}
