# SPDX-License-Identifier: Apache-2.0
"""Names of ops that TensorFlow 1.15.5 or 2.8.4 had and 2.21 can't run.

Made by tests/data/make_dead_op_names.py.
"""

from __future__ import annotations

# By the last of these versions that had an op, where it was defined ('core', or a library of
# contrib), and whether TensorFlow 2.21 still knows it (and has no kernel).
NAMES: dict[tuple[str, str, bool], str] = {
    ("1.15", "contrib.bigtable", False): """
        BigtableClient BigtableLookupDataset BigtablePrefixKeyDataset BigtableRangeKeyDataset
        BigtableSampleKeyPairsDataset BigtableSampleKeysDataset BigtableScanDataset BigtableTable
        DatasetToBigtable
    """,
    ("1.15", "contrib.boosted_trees", False): """
        BucketizeWithInputBoundaries BuildCategoricalEqualitySplits BuildDenseInequalitySplits
        BuildSparseInequalitySplits CenterTreeEnsembleBias CreateQuantileAccumulator
        CreateStatsAccumulatorScalar CreateStatsAccumulatorTensor CreateTreeEnsembleVariable
        DecisionTreeEnsembleResourceHandleOp GradientTreesPartitionExamples GradientTreesPrediction
        GradientTreesPredictionVerbose GrowTreeEnsemble MakeQuantileSummaries
        QuantileAccumulatorAddSummaries QuantileAccumulatorDeserialize QuantileAccumulatorFlush
        QuantileAccumulatorFlushSummary QuantileAccumulatorGetBuckets
        QuantileAccumulatorIsInitialized QuantileAccumulatorSerialize QuantileBuckets
        QuantileStreamResourceHandleOp Quantiles StatsAccumulatorScalarAdd
        StatsAccumulatorScalarDeserialize StatsAccumulatorScalarFlush
        StatsAccumulatorScalarIsInitialized StatsAccumulatorScalarMakeSummary
        StatsAccumulatorScalarResourceHandleOp StatsAccumulatorScalarSerialize
        StatsAccumulatorTensorAdd StatsAccumulatorTensorDeserialize StatsAccumulatorTensorFlush
        StatsAccumulatorTensorIsInitialized StatsAccumulatorTensorMakeSummary
        StatsAccumulatorTensorResourceHandleOp StatsAccumulatorTensorSerialize
        TreeEnsembleDeserialize TreeEnsembleIsInitializedOp TreeEnsembleSerialize
        TreeEnsembleStampToken TreeEnsembleStats TreeEnsembleUsedHandlers
    """,
    ("1.15", "contrib.cloud", False): """
        BigQueryReader GcsConfigureBlockCache GcsConfigureCredentials
        GenerateBigQueryReaderPartitions
    """,
    ("1.15", "contrib.factorization", False): """
        MaskedMatmul WALSComputePartialLhsAndRhs
    """,
    ("1.15", "contrib.ffmpeg", False): """
        DecodeAudio DecodeAudioV2 DecodeVideo EncodeAudio EncodeAudioV2
    """,
    ("1.15", "contrib.framework", False): """
        ZeroInitializer ZeroVarInitializer
    """,
    ("1.15", "contrib.fused_conv", False): """
        FusedConv2DBiasActivation
    """,
    ("1.15", "contrib.hadoop", False): """
        SequenceFileDataset
    """,
    ("1.15", "contrib.ignite", False): """
        IgniteDataset
    """,
    ("1.15", "contrib.image", False): """
        AdjustHsvInYiq BipartiteMatch ImageConnectedComponents ImageProjectiveTransform
        SingleImageRandomDotStereograms
    """,
    ("1.15", "contrib.input_pipeline", False): """
        ObtainNext
    """,
    ("1.15", "contrib.kafka", False): """
        KafkaDataset
    """,
    ("1.15", "contrib.kinesis", False): """
        KinesisDataset
    """,
    ("1.15", "contrib.layers", False): """
        SparseFeatureCross SparseFeatureCrossV2
    """,
    ("1.15", "contrib.libsvm", False): """
        DecodeLibsvm
    """,
    ("1.15", "contrib.memory_stats", False): """
        BytesInUse BytesLimit MaxBytesInUse
    """,
    ("1.15", "contrib.periodic_resample", False): """
        PeriodicResample PeriodicResampleOpGrad
    """,
    ("1.15", "contrib.reduce_slice_ops", False): """
        ReduceSliceMax ReduceSliceMin ReduceSliceProd ReduceSliceSum
    """,
    ("1.15", "contrib.remote_fused_graph", False): """
        RemoteFusedGraphExecute
    """,
    ("1.15", "contrib.resampler", False): """
        Resampler ResamplerGrad
    """,
    ("1.15", "contrib.rpc", False): """
        Rpc TryRpc
    """,
    ("1.15", "contrib.seq2seq", False): """
        GatherTree
    """,
    ("1.15", "contrib.tensor_forest", False): """
        CreateFertileStatsVariable CreateTreeVariable DecisionTreeResourceHandleOp
        FeatureUsageCounts FertileStatsDeserialize FertileStatsIsInitializedOp
        FertileStatsResourceHandleOp FertileStatsSerialize FinalizeTree GrowTreeV4 ProcessInputV4
        ReinterpretStringToFloat ScatterAddNdim TraverseTreeV4 TreeDeserialize TreeIsInitializedOp
        TreePredictionsV4 TreeSerialize TreeSize UpdateModelV4
    """,
    ("1.15", "contrib.text", False): """
        SkipGramGenerateCandidates
    """,
    ("1.15", "core", False): """
        CompareAndBitpack LoadTPUEmbeddingADAMParametersGradAccumDebug
        LoadTPUEmbeddingAdadeltaParametersGradAccumDebug
        LoadTPUEmbeddingAdagradParametersGradAccumDebug
        LoadTPUEmbeddingFTRLParametersGradAccumDebug
        LoadTPUEmbeddingMomentumParametersGradAccumDebug
        LoadTPUEmbeddingProximalAdagradParametersGradAccumDebug
        LoadTPUEmbeddingRMSPropParametersGradAccumDebug
        RetrieveTPUEmbeddingADAMParametersGradAccumDebug
        RetrieveTPUEmbeddingAdadeltaParametersGradAccumDebug
        RetrieveTPUEmbeddingAdagradParametersGradAccumDebug
        RetrieveTPUEmbeddingFTRLParametersGradAccumDebug
        RetrieveTPUEmbeddingMomentumParametersGradAccumDebug
        RetrieveTPUEmbeddingProximalAdagradParametersGradAccumDebug
        RetrieveTPUEmbeddingRMSPropParametersGradAccumDebug TensorForestCreateTreeVariable
        TensorForestTreeDeserialize TensorForestTreeIsInitializedOp TensorForestTreePredict
        TensorForestTreeResourceHandleOp TensorForestTreeSerialize TensorForestTreeSize
    """,
    ("2.8", "core", True): """
        AccumulateNV2 AllToAll AssignVariableXlaConcatND BoostedTreesAggregateStats
        BoostedTreesBucketize BoostedTreesCalculateBestFeatureSplit
        BoostedTreesCalculateBestFeatureSplitV2 BoostedTreesCalculateBestGainsPerFeature
        BoostedTreesCenterBias BoostedTreesCreateEnsemble BoostedTreesCreateQuantileStreamResource
        BoostedTreesDeserializeEnsemble BoostedTreesEnsembleResourceHandleOp
        BoostedTreesExampleDebugOutputs BoostedTreesFlushQuantileSummaries
        BoostedTreesGetEnsembleStates BoostedTreesMakeQuantileSummaries
        BoostedTreesMakeStatsSummary BoostedTreesPredict
        BoostedTreesQuantileStreamResourceAddSummaries
        BoostedTreesQuantileStreamResourceDeserialize BoostedTreesQuantileStreamResourceFlush
        BoostedTreesQuantileStreamResourceGetBucketBoundaries
        BoostedTreesQuantileStreamResourceHandleOp BoostedTreesSerializeEnsemble
        BoostedTreesSparseAggregateStats BoostedTreesSparseCalculateBestFeatureSplit
        BoostedTreesTrainingPredict BoostedTreesUpdateEnsemble BoostedTreesUpdateEnsembleV2
        CollectivePermute ConfigureDistributedTPU ConfigureTPUEmbedding CrossReplicaSum
        DynamicEnqueueTPUEmbeddingArbitraryTensorBatch EnqueueTPUEmbeddingArbitraryTensorBatch
        EnqueueTPUEmbeddingIntegerBatch EnqueueTPUEmbeddingRaggedTensorBatch
        EnqueueTPUEmbeddingSparseBatch EnqueueTPUEmbeddingSparseTensorBatch
        FilterByLastComponentDataset InfeedDequeue InfeedDequeueTuple InfeedEnqueue
        InfeedEnqueuePrelinearizedBuffer InfeedEnqueueTuple IsBoostedTreesEnsembleInitialized
        IsBoostedTreesQuantileStreamResourceInitialized IsTPUEmbeddingInitialized
        LoadTPUEmbeddingADAMParameters LoadTPUEmbeddingAdadeltaParameters
        LoadTPUEmbeddingAdagradMomentumParameters LoadTPUEmbeddingAdagradParameters
        LoadTPUEmbeddingCenteredRMSPropParameters LoadTPUEmbeddingFTRLParameters
        LoadTPUEmbeddingFrequencyEstimatorParameters LoadTPUEmbeddingMDLAdagradLightParameters
        LoadTPUEmbeddingMomentumParameters LoadTPUEmbeddingProximalAdagradParameters
        LoadTPUEmbeddingProximalYogiParameters LoadTPUEmbeddingRMSPropParameters
        LoadTPUEmbeddingStochasticGradientDescentParameters MlirPassthroughOp OutfeedDequeue
        OutfeedDequeueTuple OutfeedDequeueTupleV2 OutfeedDequeueV2 OutfeedEnqueue
        OutfeedEnqueueTuple Prelinearize PrelinearizeTuple QuantizedReluX ReadVariableXlaSplitND
        RecvTPUEmbeddingActivations RetrieveTPUEmbeddingADAMParameters
        RetrieveTPUEmbeddingAdadeltaParameters RetrieveTPUEmbeddingAdagradMomentumParameters
        RetrieveTPUEmbeddingAdagradParameters RetrieveTPUEmbeddingCenteredRMSPropParameters
        RetrieveTPUEmbeddingFTRLParameters RetrieveTPUEmbeddingFrequencyEstimatorParameters
        RetrieveTPUEmbeddingMDLAdagradLightParameters RetrieveTPUEmbeddingMomentumParameters
        RetrieveTPUEmbeddingProximalAdagradParameters RetrieveTPUEmbeddingProximalYogiParameters
        RetrieveTPUEmbeddingRMSPropParameters
        RetrieveTPUEmbeddingStochasticGradientDescentParameters SendTPUEmbeddingGradients
        ShutdownDistributedTPU TPUCompilationResult TPUEmbeddingActivations TPUOrdinalSelector
        TPUPartitionedCall TPUPartitionedInput TPUPartitionedOutput TPUReplicateMetadata
        TPUReplicatedInput TPUReplicatedOutput WorkerHeartbeat XlaAllReduce XlaConcatND
        XlaReduceScatter XlaRemoveDynamicDimensionSize XlaSetBound XlaSetDynamicDimensionSize
        XlaSplitND XlaSpmdFullToShardShape
    """,
}
